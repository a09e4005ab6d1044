package people

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/frontdoor/signin"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/tenant"
)

// Directory returns the settings of tenants. *tenant.Directory implements it.
type Directory interface {
	// Settings may wait until ctx ends. It returns nil for an unknown tenant.
	Settings(ctx context.Context, id string) (*tenant.Settings, *call.Refusal)
}

// Config configures People. New sets SignIn's Kind, Mount, Keys and People.
type Config struct {
	SignIn    signin.Config
	Keys      *guard.Keys            // keys of operators
	Start     *guard.StartToken      // optional
	StartText string                 // text of the start token, whose digest sessions hold
	Holders   *tenant.Authenticators // keys of tenants; nil means there are no tenants
	Tenants   Directory
	Insecure  bool // the admin API requires no credential
}

// People authenticates people at the admin port by their sessions. It implements guard.Authenticator,
// guard.SessionIssuer and signin.People.
type People struct {
	cfg     Config
	start   string // digest of the start token
	entries atomic.Pointer[operator.People]
	*signin.Handler
}

// New returns People without entries.
func New(cfg Config) *People {
	p := &People{cfg: cfg}
	p.entries.Store(&operator.People{})
	if cfg.Start != nil {
		sum := sha256.Sum256([]byte("start token " + cfg.StartText))
		p.start = hex.EncodeToString(sum[:8])
	}
	of := cfg.SignIn
	of.Kind, of.Mount, of.Home, of.People = session.Admin, "", "/", p
	of.Keys = "API key with a role"
	if cfg.Start != nil {
		of.Keys = "Start token, which the gateway has printed, or an API key with a role"
	}
	p.Handler = signin.New(of)
	return p
}

// Replace replaces the entries with the roles of people.
func (p *People) Replace(entries operator.People) { p.entries.Store(&entries) }

// Authenticate implements guard.Authenticator. A credential takes precedence over a cookie; it may be the session of a
// program.
func (p *People) Authenticate(r *http.Request) (*operator.Identity, bool, *call.Refusal) {
	text, present := guard.Credential(r)
	if strings.HasPrefix(text, operator.SessionPrefix) {
		s, refusal := p.Program(r.Context(), text)
		if refusal != nil {
			return nil, true, refusal
		}
		identity, refusal := p.identity(r.Context(), s)
		return identity, true, refusal
	}
	if present || !p.Has(r) {
		return nil, false, nil
	}
	s, refusal := p.Session(r)
	if refusal != nil {
		return nil, true, refusal
	}
	identity, refusal := p.identity(r.Context(), s)
	if refusal == nil {
		identity.Session = &operator.Session{ID: s.ID, CSRF: s.CSRF, Expires: s.Expires}
	}
	return identity, true, refusal
}

// Issue implements guard.SessionIssuer, for the start token.
func (p *People) Issue(w http.ResponseWriter, r *http.Request, _ *operator.Identity) error {
	if refusal := p.Handler.Issue(w, r, &session.Session{Via: session.ViaStart, Key: p.start}); refusal != nil {
		return refusal
	}
	return nil
}

// Key implements signin.People.
func (p *People) Key(ctx context.Context, key string) (*session.Session, *call.Refusal) {
	if strings.HasPrefix(key, operator.StartPrefix) && p.cfg.Start != nil && p.cfg.Start.Matches(key) {
		return &session.Session{Via: session.ViaStart, Key: p.start}, nil
	}
	id, _, ok := tenant.ParseCredential(key)
	if !ok {
		return nil, refusedKey
	}
	r := (&http.Request{Header: http.Header{"Authorization": {"Bearer " + key}}}).WithContext(ctx)
	by := []guard.Authenticator{p.cfg.Keys}
	if p.cfg.Holders != nil {
		by = append(by, guard.NewTenants(p.cfg.Holders))
	}
	for _, one := range by {
		identity, known, refusal := one.Authenticate(r)
		if refusal != nil {
			return nil, refusal
		}
		if known {
			return &session.Session{Via: session.ViaKey, Key: id, Of: strings.Join(identity.Names(), " "),
				KeyName: cmp.Or(p.cfg.Keys.Name(id), p.cfg.Holders.KeyName(id))}, nil
		}
	}
	return nil, refusedKey
}

// Check implements signin.People.
func (p *People) Check(ctx context.Context, s *session.Session) (rights string, refusal *call.Refusal) {
	identity, refusal := p.identity(ctx, s)
	if refusal == nil {
		rights = identity.Rights()
	}
	return rights, refusal
}

// identity returns the current operator of a session's person or key.
func (p *People) identity(ctx context.Context, s *session.Session) (identity *operator.Identity,
	refusal *call.Refusal) {
	switch s.Via {
	case session.ViaStart:
		if p.cfg.Start == nil || !session.SameSecret(s.Key, p.start) {
			return nil, session.Refused()
		}
		identity = p.cfg.Start.Identity()
	case session.ViaKey:
		identity, refusal = p.holder(ctx, s.Key)
	default:
		identity, refusal = p.person(ctx, s)
	}
	if refusal != nil {
		return nil, refusal
	}
	if identity.Any() == 0 {
		return nil, refusedRole(identity.Name)
	}
	identity.Via = operator.ViaSession
	return identity, nil
}

// holder returns the operator of a key.
func (p *People) holder(ctx context.Context, id string) (*operator.Identity, *call.Refusal) {
	if identity := p.cfg.Keys.Find(id); identity != nil {
		return identity, nil
	}
	if p.cfg.Holders == nil {
		return nil, session.Refused()
	}
	of, refusal := p.cfg.Holders.Holder(ctx, id)
	if refusal != nil {
		return nil, refusal
	}
	identity := &operator.Identity{Name: tenant.KeyLabel(id, p.cfg.Holders.KeyName(id)), Key: id}
	identity.Grant(of.Tenant, guard.RolesOf(of.Scopes))
	return identity, nil
}

// person returns the operator of a person: by the entries, and by the scopes that the claims give for a tenant.
func (p *People) person(ctx context.Context, s *session.Session) (*operator.Identity, *call.Refusal) {
	identity := &operator.Identity{Name: s.Name(), User: s.User, Issuer: s.Issuer, Groups: s.Groups}
	configured := false
	for _, i := range p.cfg.SignIn.Issuers() {
		configured = configured || i.Issuer == s.Issuer
	}
	if !configured {
		return nil, session.Refused()
	}
	p.entries.Load().Grant(identity, s.Issuer, s.User, s.Groups)
	if s.Tenant == "" {
		return identity, nil
	}
	var scopes tenant.Scopes
	for _, name := range s.Scopes {
		one, _ := tenant.ParseScope(name)
		scopes |= one
	}
	if roles := guard.RolesOf(scopes); roles != 0 {
		of, refusal := p.cfg.Tenants.Settings(ctx, s.Tenant)
		if refusal != nil && identity.Any() == 0 {
			return nil, refusal
		}
		if of != nil && !of.Disabled {
			identity.Grant(s.Tenant, roles)
		}
	}
	return identity, nil
}

func refusedRole(name string) *call.Refusal {
	return &call.Refusal{Kind: call.PermissionDenied, Reason: "ROLE_MISSING",
		Metadata: map[string]string{"role": operator.View.String()},
		Message: call.Quote(name) + " has no role here; an operator gives one under operators.people, or a key has " +
			"it among its roles or scopes"}
}

var refusedKey = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
	Message: "the key is unknown, revoked or wrong"}
