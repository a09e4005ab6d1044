// Package httpclient makes the HTTP clients of the gateway. They follow no redirect, keep no cookies, and use no proxy
// but their own: each could carry credentials to another host.
package httpclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"maps"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/capgate/capgate/internal/lib/buildinfo"
)

// Config bounds a client. Callers bound the bodies of responses.
type Config struct {
	Name        string        // of the client, in the User-Agent of requests without one; default "capgate"
	TLS         *tls.Config   // nil means the system's CAs, and TLS 1.2 or later
	Timeout     time.Duration // of a request and its response; 0 means that the context alone bounds them
	Handshake   time.Duration // of TCP, and then of TLS; default 10 s
	MaxHeader   int64         // bytes of the headers of a response; default 64 KiB
	MaxConns    int           // to one host; 0 means no limit
	MaxIdle     int           // unused connections; default 2 to one host
	Compression bool          // ask for compressed responses, and decompress them

	// A silent connection of HTTP/2 is tested after PingAfter, and closed if it does not respond within PingTimeout; 0
	// means that it is not tested.
	PingAfter, PingTimeout time.Duration

	Protocols *http.Protocols                                                 // default HTTP/1.1, and HTTP/2 over TLS
	Proxy     func(*http.Request) (*url.URL, error)                           // nil means no proxy
	Dial      func(ctx context.Context, network, at string) (net.Conn, error) // optional; it bounds its time itself
}

// New returns a client. The caller closes its idle connections, which close by themselves after a minute.
func New(c Config) *http.Client {
	if c.TLS == nil {
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	handshake := cmp.Or(c.Handshake, 10*time.Second)
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: handshake}).DialContext
	}
	return &http.Client{
		Timeout:       c.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &named{agent: buildinfo.UserAgent(cmp.Or(c.Name, "capgate")), Transport: &http.Transport{
			Proxy: c.Proxy, DialContext: c.Dial, TLSClientConfig: c.TLS,
			ForceAttemptHTTP2: true, Protocols: c.Protocols,
			HTTP2:               &http.HTTP2Config{SendPingTimeout: c.PingAfter, PingTimeout: c.PingTimeout},
			TLSHandshakeTimeout: handshake, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: cmp.Or(c.MaxHeader, 64<<10), MaxConnsPerHost: c.MaxConns,
			MaxIdleConns: c.MaxIdle, MaxIdleConnsPerHost: c.MaxIdle, DisableCompression: !c.Compression,
		}},
	}
}

// named sets the User-Agent of requests without one.
type named struct {
	*http.Transport
	agent string
}

// RoundTrip implements http.RoundTripper.
func (n *named) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, set := r.Header["User-Agent"]; !set {
		sent := *r // the caller's request and header stay as they are
		sent.Header = maps.Clone(r.Header)
		if sent.Header == nil {
			sent.Header = http.Header{}
		}
		sent.Header.Set("User-Agent", n.agent)
		r = &sent
	}
	return n.Transport.RoundTrip(r)
}
