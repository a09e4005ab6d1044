package gateway

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/signin"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/tenant"
)

// InboxPath is the path of the page of approvals at the public port. Nothing else has a path below it.
const InboxPath = "/inbox"

// Inbox is the page of approvals for people who have signed in. Their cookies count below InboxPath alone, and nothing
// else counts there.
type Inbox struct {
	SignIn *signin.Handler
	// Identity returns the caller that the person or key of a session is now, for the tenant that a request names or, for
	// "" and tenant.All, for all that it may answer for. It may wait until ctx ends.
	Identity func(ctx context.Context, s *session.Session, named string) (tenant.Identity, *call.Refusal)
	Page     http.Handler // the page and its files, which are the same for everybody
}

// inboxCaller is whom a request to the inbox is of.
type inboxCaller struct {
	session *session.Session
	refusal *call.Refusal
}

// isInbox reports whether a request is for the inbox. Ports besides the public one have none.
func (v *webRequest) isInbox() bool {
	return v.client.At == nil && isInboxPath(v.r.URL.Path)
}

// NetworkOf returns the name of the network of the client of a request to the inbox.
func NetworkOf(r *http.Request) string { return webRequestOf(r).from }

func isInboxPath(path string) bool {
	return path == InboxPath || strings.HasPrefix(path, InboxPath+"/")
}

// authenticatePerson sets the principal of a request to the inbox by its session.
func (v *webRequest) authenticatePerson() {
	of := v.h.cfg.Doors.Inbox
	if of == nil || !strings.HasPrefix(v.r.URL.Path, InboxPath+"/v1/") {
		return // the sign-in and the page need nobody
	}
	who := &inboxCaller{}
	v.person = who
	if who.session, who.refusal = of.SignIn.Session(v.r); who.refusal != nil {
		return
	}
	identity, refusal := of.Identity(v.r.Context(), who.session, v.r.URL.Query().Get("tenant"))
	if who.refusal = refusal; refusal != nil {
		return
	}
	v.setIdentity(identity)
	v.h.authenticated(relay.PeerOf(v.r.Context()))
}

// withInbox serves the inbox by its own handlers, and approvals there by the JSON API.
func withInbox(of *Inbox, api, next http.Handler) http.Handler {
	var own http.Handler = http.HandlerFunc(noInbox)
	if of != nil {
		own = of.handler(api)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if webRequestOf(r).isInbox() {
			own.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func noInbox(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	problem.Write(w, r, problem.Own(http.StatusNotFound, codes.NotFound, "INBOX_OFF", "the page of approvals is off: "+
		"the gateway has no tenants with credentials, who could answer; operators answer at the admin port"))
}

func (i *Inbox) handler(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	for pattern, serve := range i.SignIn.Routes() {
		mux.HandleFunc(pattern, serve)
	}
	mux.Handle("GET "+InboxPath, i.Page)
	mux.Handle("GET "+InboxPath+"/assets/", i.Page)
	mux.HandleFunc("GET "+InboxPath+"/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", InboxPath)
		w.WriteHeader(http.StatusPermanentRedirect)
	})
	mux.HandleFunc("GET "+InboxPath+"/v1/me", i.me)
	approvals := i.SignIn.Follow(i.approvals(api))
	mux.Handle(InboxPath+"/v1/approvals", approvals)
	mux.Handle(InboxPath+"/v1/approvals/", approvals)
	pages := http.NewCrossOriginProtection() // the browser may also show foreign pages
	pages.SetDenyHandler(http.HandlerFunc(problem.CrossSite))
	return pages.Handler(problem.Mux(mux))
}

// approvals serves requests for approvals as the JSON API does, for the person of the session.
func (i *Inbox) approvals(api http.Handler) http.Handler {
	return i.known(func(w http.ResponseWriter, r *http.Request, _ *inboxCaller) {
		inner, address := *r, *r.URL
		address.Path = strings.TrimPrefix(address.Path, InboxPath)
		address.RawPath = strings.TrimPrefix(address.RawPath, InboxPath)
		inner.URL, inner.RequestURI = &address, address.RequestURI()
		inner.Header = r.Header.Clone()
		for name := range inner.Header {
			if !passesInbox(name) {
				delete(inner.Header, name)
			}
		}
		api.ServeHTTP(w, &inner)
	})
}

// passesInbox reports whether a header of a request means something to the routes of approvals. None names a caller.
func passesInbox(name string) bool {
	switch name {
	case "Accept", "Accept-Encoding", "Content-Type", "Content-Length", "Content-Encoding", "If-None-Match",
		"Last-Event-Id", http.CanonicalHeaderKey(requestIDHeader), "Traceparent", "Tracestate", "Te":
		return true
	}
	return false
}

func (i *Inbox) me(w http.ResponseWriter, r *http.Request) {
	i.known(func(w http.ResponseWriter, r *http.Request, who *inboxCaller) {
		of := &webRequestOf(r).Identity
		me := signin.Me{Name: who.session.Title(), User: of.User, Tenant: of.Tenant, Groups: of.Groups(),
			Via: "session", Issuer: who.session.Issuer, Roles: rolesAtInbox(of.Scopes)}
		if several := of.Several(); several != nil {
			me.Tenant, me.AllRoles = "", rolesAtInbox(several.All)
			for _, t := range several.Tenants {
				me.Tenants = append(me.Tenants, signin.TenantRoles{Tenant: t.Settings.ID, Roles: rolesAtInbox(t.Scopes)})
			}
		}
		i.SignIn.WriteMe(w, r, me, who.session)
	}).ServeHTTP(w, r)
}

// rolesAtInbox returns the roles of the admin API that permit what scopes permit at the inbox: an answer for always
// sets a rule.
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

// known serves requests of people, and refuses others.
func (i *Inbox) known(next func(http.ResponseWriter, *http.Request, *inboxCaller)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		v := webRequestOf(r)
		if v.person == nil || v.person.refusal != nil {
			refusal := session.Refused()
			if v.person != nil {
				refusal = v.person.refusal
			}
			problem.Write(w, r, problem.Of(v.refuse(refusal, 0)))
			return
		}
		next(w, r, v.person)
	})
}
