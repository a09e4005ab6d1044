package httpclient

import (
	"net/http"
	"net/url"
)

// Proxy returns the choice of a proxy of a client's requests; nil means no proxy.
func Proxy(c *http.Client) func(*http.Request) (*url.URL, error) { return c.Transport.(*named).Proxy }
