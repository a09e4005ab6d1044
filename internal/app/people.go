package app

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/capgate/capgate/console"
	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/admin/people"
	"github.com/capgate/capgate/gateway/frontdoor/inbox"
	"github.com/capgate/capgate/gateway/frontdoor/signin"
	"github.com/capgate/capgate/internal/approver"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/tenant/token"
)

// persons handles the sign-in of people with a browser, at the admin port and at the inbox.
type persons struct {
	sessions  *session.Manager
	admin     *people.People
	inbox     *inbox.Config // nil: no person or key could answer there
	approvers *approver.Approvers
	now       atomic.Pointer[personSettings]
}

// personSettings are the part of the configuration that a reload may change.
type personSettings struct {
	entries             operator.People
	issuers             []token.Client
	groups              map[string]bool // that approvals.rules name
	publicURL, adminURL string
}

// newPersons sets up the sign-in of people, and adds it to the authenticators of the admin API.
func (p *App) newPersons(s *settings.Settings, guarded *guard.Config) {
	o := &p.persons
	o.sessions = session.New(p.store.People(), session.Options{Log: p.log, Keys: p.secret.Keys("sessions")})
	o.set(s)
	limiter := session.NewLimiter(nil) // of the admin API; the inbox has its own
	of := signin.Config{
		Sessions: o.sessions, Logins: p.auth.tokens, Limiter: limiter, Audit: p.audit, Log: p.log,
		Issuers: func() []token.Client { return o.now.Load().issuers },
		URL:     func() string { return o.now.Load().adminURL }, Network: p.networkOfOperator,
		Groups: o.namesGroup,
	}
	o.admin = people.New(people.Config{SignIn: of, Keys: p.operators.keys, Start: guarded.Start,
		StartText: p.operators.token, Holders: p.auth.all, Tenants: p.auth.directory, Insecure: guarded.Insecure})
	o.admin.Replace(o.now.Load().entries)
	guarded.Authenticators = append(guarded.Authenticators, o.admin)
	guarded.Sessions, guarded.SignIn, guarded.Follow = o.admin, o.admin.SignInPage(), o.sessions.Follow
	if p.auth.all == nil && len(s.SignIn) == 0 {
		return
	}
	o.approvers = &approver.Approvers{Authenticators: p.auth.all, Directory: p.auth.directory, Roster: p.auth.roster,
		People: func() operator.People { return o.now.Load().entries }, SignsIn: o.signsIn}
	of.Limiter = session.NewLimiter(nil)
	of.Kind, of.Mount, of.Home, of.People = session.Inbox, inbox.Path, inbox.Path, o.approvers
	if p.auth.all != nil {
		of.Keys = "API key with the scope approve"
	}
	of.URL, of.Network = func() string { return o.now.Load().publicURL }, inbox.NetworkOf
	o.inbox = &inbox.Config{SignIn: signin.New(of), Identity: o.approvers.Identity,
		Page: console.Handler(console.Inbox)}
}

// operatorAddr returns the address of a client of the admin API, behind trusted proxies.
func (p *App) operatorAddr(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	list := strings.Join(r.Header.Values(p.parts.Clients.Addr.Header()), ",")
	return p.parts.Clients.Addr.Client(peer.Addr().Unmap(), list).String()
}

// networkOfOperator returns the name of the network of a client of the admin API.
func (p *App) networkOfOperator(r *http.Request) string {
	return clientaddr.NetworkNameOf(p.operatorAddr(r))
}

// groupsOfRules returns the groups that approvals.rules name.
func groupsOfRules(c *config.Config) map[string]bool {
	all := map[string]bool{}
	for i := range c.Approvals.Rules {
		r := &c.Approvals.Rules[i]
		for _, group := range append(slices.Clone(r.Groups), r.Escalate.Groups...) {
			all[group] = true
		}
	}
	return all
}

// signsIn reports whether people of an issuer sign in with a browser.
func (o *persons) signsIn(issuer string) bool {
	return slices.ContainsFunc(o.now.Load().issuers, func(i token.Client) bool { return i.Issuer == issuer })
}

// namesGroup reports whether a rule or an entry with roles names a group, so that sessions keep it first.
func (o *persons) namesGroup(group string) bool {
	now := o.now.Load()
	return now.groups[group] || now.entries.Named(group)
}

// set applies a new configuration.
func (o *persons) set(s *settings.Settings) {
	now := &personSettings{entries: s.Config.Operators.People, issuers: s.SignIn, groups: groupsOfRules(s.Config),
		publicURL: s.Config.PublicURL, adminURL: s.Config.AdminURL}
	o.now.Store(now)
	if o.admin != nil {
		o.admin.Replace(now.entries)
	}
	o.sessions.SetTTL(s.Config.Operators.Session.TTL)
}
