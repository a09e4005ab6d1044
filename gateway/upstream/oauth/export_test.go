package oauth

import "net/http"

// Reach makes t send the requests to the authorization server by rt.
func (t *Transport) Reach(rt http.RoundTripper) { t.client.Transport = rt }

// Token returns the token in use; "" means none.
func (t *Transport) Token() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.token.value()
}
