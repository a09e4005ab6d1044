package people

import (
	"net/http"

	"github.com/capgate/capgate/gateway/admin/guard"
)

// Mount adds the routes of the sign-in to a mux.
func (p *People) Mount(mux *guard.Mux) {
	for pattern, serve := range p.Routes() {
		mux.HandleFunc(pattern, serve)
	}
}

// SignInPage returns the handler that redirects browsers to the sign-in.
func (p *People) SignInPage() http.Handler { return http.HandlerFunc(p.ToSignIn) }
