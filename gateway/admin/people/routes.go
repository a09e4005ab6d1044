package people

import (
	"net/http"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/frontdoor/signin"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/session"
)

// Mount adds the routes to a mux.
func (p *People) Mount(mux *guard.Mux) {
	for pattern, serve := range p.Routes() {
		mux.HandleFunc(pattern, serve)
	}
	mux.HandleFunc("GET /v1/me", p.me)
	mux.HandleFunc("GET /v1/sessions", p.ListSessions)
	mux.HandleFunc("POST /v1/sessions:revoke", p.revoke)
}

// me responds with the operator of a request, however it was authenticated.
func (p *People) me(w http.ResponseWriter, r *http.Request) {
	who := operator.FromContext(r.Context())
	if who == nil { // the guard lets nobody else in
		who = &operator.Identity{Name: operator.Unnamed}
	}
	var s *session.Session
	if who.Via == operator.ViaSession {
		s, _ = p.Session(r)
	}
	me := signin.Me{Name: who.Name, User: who.User, Tenant: who.Only(), Roles: who.Any().Names(),
		Groups: who.Groups, Via: who.Via, Issuer: who.Issuer, Insecure: p.cfg.Insecure}
	if len(who.Tenants) > 0 && me.Tenant == "" {
		me.AllRoles = append([]string{}, who.Roles.Names()...)
		for _, t := range who.Tenants {
			me.Tenants = append(me.Tenants, signin.TenantRoles{Tenant: t.Tenant, Roles: t.Roles.Names()})
		}
	}
	p.WriteMe(w, r, me, s)
}

// revoke ends sessions.
func (p *People) revoke(w http.ResponseWriter, r *http.Request) {
	ended, ok := p.RevokeSessions(w, r)
	if !ok {
		return
	}
	p.cfg.SignIn.Audit.RecordChange(&audit.Change{Actor: operator.NameOf(r.Context(), ""), What: "session.revoked",
		Targets: []audit.Target{{Name: "session", Value: ended}}})
}

// SignInPage returns the handler that sends browsers to the sign-in.
func (p *People) SignInPage() http.Handler { return http.HandlerFunc(p.ToSignIn) }
