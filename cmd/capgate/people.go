package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/capgate/capgate/console"
	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/admin/people"
	"github.com/capgate/capgate/gateway/frontdoor/signin"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
)

// persons are the people who sign in with a browser, at the admin port and at the inbox.
type persons struct {
	sessions *session.Manager
	admin    *people.People
	inbox    *gateway.Inbox // nil: nobody could answer there
	auth     *authentication
	now      atomic.Pointer[personSettings]
}

// personSettings are the part of the configuration that a reload may change.
type personSettings struct {
	entries             operator.People
	issuers             []signin.Issuer
	groups              map[string]bool // that approvals.rules name
	publicURL, adminURL string
}

// readSignIn reads the secrets of this gateway as a client of issuers, and the keys of sessions.
func (s *settings) readSignIn() (problems []error) {
	o := &s.cfg.Operators
	for i := range o.SignIn {
		c := &o.SignIn[i]
		of := signin.Issuer{Client: token.Client{Issuer: c.Issuer, ID: c.ClientID, Scopes: c.Scopes}, Title: c.Title}
		if c.ClientSecretFile != "" {
			var err error
			if of.Secret, err = readSecret(c.ClientSecretFile, s.files); err != nil {
				problems = append(problems, fmt.Errorf("operators.sign_in, issuer %s: client_secret_file: %w", c.Issuer, err))
			}
		}
		s.signIn = append(s.signIn, of)
	}
	if file := o.Session.KeyFile; file != "" {
		var err error
		if s.sessionKeys, err = readKeys(file, s.files); err != nil {
			problems = append(problems, fmt.Errorf("operators.session.key_file: %w", err))
		}
	}
	return problems
}

// newPersons sets up the sign-in of people, and adds it to those whom the admin API knows.
func (p *process) newPersons(s *settings, guarded *guard.Config) error {
	o := &p.persons
	o.auth, o.sessions = &p.auth, session.New(p.store.People(), session.Options{Log: p.log})
	if err := o.set(s); err != nil {
		return err
	}
	limiter := session.NewLimiter(nil)
	of := signin.Config{
		Sessions: o.sessions, Logins: p.auth.tokens, Limiter: limiter, Audit: p.audit, Log: p.log,
		Issuers: func() []signin.Issuer { return o.now.Load().issuers },
		URL:     func() string { return o.now.Load().adminURL }, Network: networkOfPeer,
		Groups: o.namesGroup,
		Status: gateway.GRPCStatus, HTTPStatus: gateway.HTTPStatus,
	}
	o.admin = people.New(people.Config{SignIn: of, Keys: p.operators.keys, Start: guarded.Start,
		StartText: p.operators.token, Holders: p.auth.all, Tenants: p.auth.directory, Insecure: guarded.Insecure})
	o.admin.Replace(o.now.Load().entries)
	guarded.Authenticators = append(guarded.Authenticators, o.admin)
	guarded.Sessions, guarded.SignIn = o.admin, o.admin.SignInPage()
	if p.auth.all == nil && len(s.signIn) == 0 {
		return nil
	}
	of.Kind, of.Mount, of.Home, of.People = session.Inbox, gateway.InboxPath, gateway.InboxPath, approvers{o}
	if p.auth.all != nil {
		of.Keys = "API key with the scope approve"
	}
	of.URL, of.Network = func() string { return o.now.Load().publicURL }, gateway.NetworkOf
	o.inbox = &gateway.Inbox{SignIn: signin.New(of), Identity: o.approver, Page: console.Handler(console.Inbox)}
	return nil
}

// networkOfPeer returns the name of the network of a client of the admin port.
func networkOfPeer(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return clientaddr.NetworkNameOf(host)
}

// peopleOf returns the people of a configuration.
func peopleOf(s *settings) (all operator.People) {
	for _, p := range s.cfg.Operators.People {
		all = append(all, operator.Person{Issuer: p.Issuer, User: p.User, Group: p.Group, Roles: p.Roles, Tenant: p.Tenant})
	}
	return all
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

// namesGroup reports whether a rule or an entry with roles names a group, so that sessions keep it first.
func (o *persons) namesGroup(group string) bool {
	now := o.now.Load()
	return now.groups[group] || now.entries.Named(group)
}

// set applies a new configuration.
func (o *persons) set(s *settings) error {
	now := &personSettings{entries: peopleOf(s), issuers: s.signIn, groups: groupsOfRules(s.cfg),
		publicURL: s.cfg.PublicURL, adminURL: s.cfg.AdminURL}
	o.now.Store(now)
	if o.admin != nil {
		o.admin.Replace(now.entries)
	}
	return o.sessions.Configure(s.cfg.Operators.Session.TTL, s.sessionKeys)
}

// approvers are the people of the inbox.
type approvers struct{ of *persons }

// Key implements signin.People.
func (a approvers) Key(ctx context.Context, key string) (*session.Session, *call.Refusal) {
	id, _, ok := tenant.ParseCredential(key)
	if !ok || a.of.auth.all == nil {
		return nil, refusedInboxKey
	}
	c := tenant.Credentials{Credential: key}
	_, known, refusal := a.of.auth.all.Lookup(c)
	if !known {
		_, refusal = a.of.auth.all.Authenticate(ctx, c)
	}
	if refusal != nil {
		return nil, refusal
	}
	return &session.Session{Via: session.ViaKey, Key: id, KeyName: a.of.auth.all.KeyName(id)}, nil
}

// Check implements signin.People.
func (a approvers) Check(ctx context.Context, s *session.Session) (rights string, refusal *call.Refusal) {
	who, refusal := a.of.approver(ctx, s, "")
	return fmt.Sprint(who.Tenant, who.Scopes.Names(), a.of.entriesOf(s).Rights()), refusal
}

// inboxScopes are the scopes that count at the inbox.
const inboxScopes = tenant.Read | tenant.Approve | tenant.Policy

// approver returns the caller that the person or key of a session is now: of a key with the scope approve, of a person
// whose claims gave a tenant and that scope, or of one who has the role approver. A person who may answer for several
// tenants names one; "": that of the claims, or else the first.
func (o *persons) approver(ctx context.Context, s *session.Session, named string) (who tenant.Identity, refusal *call.Refusal) {
	if s.Via == session.ViaKey {
		if o.auth.all == nil {
			return who, session.Refused()
		}
		if who, refusal = o.auth.all.Holder(ctx, s.Key); refusal != nil {
			return who, refusal
		}
	} else if who, refusal = o.person(ctx, s, named); refusal != nil {
		return who, refusal
	}
	if !who.Scopes.Any(tenant.Approve) {
		return tenant.Identity{}, refusedApprover
	}
	who.Scopes = who.Scopes&inboxScopes | tenant.Read
	return who, nil
}

// entriesOf returns the roles of a session's person by the configuration.
func (o *persons) entriesOf(s *session.Session) *operator.Identity {
	who := &operator.Identity{}
	if s.Via == session.ViaPerson {
		o.now.Load().entries.Grant(who, s.Issuer, s.User, s.Groups)
	}
	return who
}

func (o *persons) person(ctx context.Context, s *session.Session, named string) (who tenant.Identity, refusal *call.Refusal) {
	now := o.now.Load()
	if s.Via != session.ViaPerson ||
		!slices.ContainsFunc(now.issuers, func(i signin.Issuer) bool { return i.Issuer == s.Issuer }) {
		return who, session.Refused()
	}
	who = tenant.Identity{Tenant: s.Tenant, User: s.User, Key: s.Issuer, Person: tenant.NewPerson(s.Issuer, s.Groups)}
	for _, name := range s.Scopes {
		one, _ := tenant.ParseScope(name)
		who.Scopes |= one
	}
	granted := o.entriesOf(s).For(operator.Approve)
	ofClaims := who.Scopes.Any(tenant.Approve)
	may := func(name string) bool {
		return name != "" && (ofClaims && name == s.Tenant || granted.In(name) != 0)
	}
	switch {
	case named != tenant.All && may(named):
		who.Tenant = named
	case !may(s.Tenant) && len(granted.Tenants) > 0:
		who.Tenant = granted.Tenants[0].Tenant
	}
	if granted.Any() != 0 && (who.Tenant != s.Tenant || !ofClaims) {
		who.Scopes = tenant.Approve // scopes of the claims are for the tenant of the claims
	}
	if o.auth.all == nil {
		who.Tenant = tenant.Default
		return who, nil
	}
	if who.Tenant == "" {
		return who, refusedApprover
	}
	if who.Settings, refusal = o.auth.directory.Settings(ctx, who.Tenant); refusal != nil {
		return who, refusal
	}
	switch {
	case who.Settings == nil && who.Tenant == named:
		return who, refusedApprover
	case who.Settings == nil:
		return who, session.Refused()
	}
	return who.Assert(tenant.Credentials{}, 0) // refused if the tenant is disabled
}

var (
	refusedInboxKey = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "the API key is unknown, revoked or wrong"}
	refusedApprover = &call.Refusal{Kind: call.PermissionDenied, Reason: "APPROVER_REQUIRED",
		Message: "you may not answer approvals: that needs a tenant and the scope approve, or the role approver"}
)
