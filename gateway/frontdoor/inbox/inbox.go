// Package inbox serves the page of approvals for people who have signed in, with the approval routes of the JSON API.
package inbox

import (
	"context"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/signin"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/tenant"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// Path is the path of the page of approvals at the public port. No other route has a path below it.
const Path = "/inbox"

// Config configures a Door. Session cookies are valid only below Path, and no other credential is valid there.
type Config struct {
	SignIn *signin.Handler
	// Identity returns the current caller of a session's person or key, for the named tenant or, for "" and
	// tenant.All, for all tenants in which it may answer. It may wait until ctx ends.
	Identity func(ctx context.Context, s *session.Session, named string) (tenant.Identity, *call.Refusal)
	Page     http.Handler // the page and its files, which are public
}

// person is the authenticated person behind a request, or the refusal.
type person struct {
	session *session.Session
	refusal *call.Refusal
}

// Door is the front door of the inbox. It implements web.SignIn.
type Door struct {
	cfg *Config // nil means no inbox
	http.Handler
}

// New returns the front door, which serves approvals with the JSON API. If cfg is nil, it responds that the page is
// off.
func New(cfg *Config, api http.Handler) *Door {
	d := &Door{cfg: cfg, Handler: http.HandlerFunc(off)}
	if cfg != nil {
		d.Handler = d.routes(api)
	}
	return d
}

// Match implements web.Door. Ports besides the public one have no inbox.
func (*Door) Match(r *http.Request) bool {
	return web.Of(r).Client.At == nil && (r.URL.Path == Path || strings.HasPrefix(r.URL.Path, Path+"/"))
}

// Protocol implements web.Door.
func (*Door) Protocol(*http.Request) call.Protocol { return call.Inbox }

// Headers implements web.Door.
func (*Door) Headers() header.Door { return header.Door{Cookies: true} }

// Timeout implements web.Door.
func (*Door) Timeout(*http.Request) (time.Duration, bool) { return 0, false }

// NetworkOf returns the name of the network of the client of a request to the inbox.
func NetworkOf(r *http.Request) string { return web.Of(r).Network }

// Identify implements web.SignIn. The sign-in and the page require no caller.
func (d *Door) Identify(r *http.Request) {
	if d.cfg == nil || !strings.HasPrefix(r.URL.Path, Path+"/v1/") {
		return
	}
	v, p := web.Of(r), &person{}
	v.Person = p
	if p.session, p.refusal = d.cfg.SignIn.Session(r); p.refusal != nil {
		return
	}
	identity, refusal := d.cfg.Identity(r.Context(), p.session, r.URL.Query().Get("tenant"))
	if p.refusal = refusal; refusal == nil {
		v.Authenticated(identity)
	}
}

func off(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	problem.Write(w, r, problem.Own(http.StatusNotFound, codes.NotFound, "INBOX_OFF", "the page of approvals is off: "+
		"the gateway has no tenants with credentials; operators answer approvals at the admin port"))
}

func (d *Door) routes(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	for pattern, serve := range d.cfg.SignIn.Routes() {
		mux.HandleFunc(pattern, serve)
	}
	mux.Handle("GET "+Path, d.cfg.Page)
	mux.Handle("GET "+Path+"/assets/", d.cfg.Page)
	mux.HandleFunc("GET "+Path+"/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", Path)
		w.WriteHeader(http.StatusPermanentRedirect)
	})
	mux.HandleFunc("GET "+Path+"/v1/me", d.me)
	approvals := d.cfg.SignIn.Follow(d.approvals(api))
	mux.Handle(Path+"/v1/approvals", approvals)
	mux.Handle(Path+"/v1/approvals/", approvals)
	pages := http.NewCrossOriginProtection() // the browser may also show pages of other sites
	pages.SetDenyHandler(http.HandlerFunc(problem.CrossSite))
	return pages.Handler(problem.Mux(mux, nil))
}

// approvals serves requests for approvals with the JSON API, on behalf of the session's person.
func (d *Door) approvals(api http.Handler) http.Handler {
	return d.known(func(w http.ResponseWriter, r *http.Request, _ *person) {
		inner, address := *r, *r.URL
		address.Path = strings.TrimPrefix(address.Path, Path)
		address.RawPath = strings.TrimPrefix(address.RawPath, Path)
		inner.URL, inner.RequestURI = &address, address.RequestURI()
		inner.Header = r.Header.Clone()
		for name := range inner.Header {
			if !header.Lookup(name).Has(header.ToInbox) {
				delete(inner.Header, name)
			}
		}
		api.ServeHTTP(w, &inner)
	})
}

func (d *Door) me(w http.ResponseWriter, r *http.Request) {
	d.known(func(w http.ResponseWriter, r *http.Request, p *person) {
		of := &web.Of(r).Identity
		me := &capgatepb.GetMeResponse{Name: p.session.Title(), User: of.User, Tenant: of.Tenant, Groups: of.Groups(),
			Via: "session", Issuer: p.session.Issuer, Roles: rolesAtInbox(of.Scopes)}
		if several := of.Several(); several != nil {
			me.Tenant, me.AllRoles = "", restjson.Strings(rolesAtInbox(several.All))
			for _, t := range several.Tenants {
				me.Tenants = append(me.Tenants,
					&capgatepb.TenantRoles{Tenant: t.Settings.ID, Roles: rolesAtInbox(t.Scopes)})
			}
		}
		d.cfg.SignIn.WriteMe(w, r, me, p.session)
	}).ServeHTTP(w, r)
}

// rolesAtInbox returns the roles of the admin API that correspond to scopes at the inbox: a permanent answer sets a
// rule.
func rolesAtInbox(scopes tenant.Scopes) []string {
	roles := []string{}
	if scopes.Any(tenant.Approve) {
		roles = append(roles, "approver")
	}
	if scopes.Any(tenant.Policy) {
		roles = append(roles, "admin")
	}
	return roles
}

// known passes requests of authenticated people to next, and refuses others.
func (d *Door) known(next func(http.ResponseWriter, *http.Request, *person)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		p, _ := web.Of(r).Person.(*person)
		if p == nil {
			p = &person{refusal: session.Refused()}
		}
		if p.refusal != nil {
			problem.Write(w, r, problem.Of(web.Of(r).Refuse(p.refusal)))
			return
		}
		next(w, r, p)
	})
}
