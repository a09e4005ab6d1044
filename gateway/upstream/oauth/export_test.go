package oauth

import "net/http"

// Reach makes t send the requests to the authorization server by rt.
func (t *Transport) Reach(rt http.RoundTripper) { t.client.Transport = rt }
