package tenant

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// Certificate is a rule: whose certificates these are. It has one of SPIFFE and DNS.
type Certificate struct {
	SPIFFE  string // a SPIFFE ID, where * stands for one segment of the path
	DNS     string // a name in lower case, whose first label may be *, for any one label
	Tenant  string
	Scopes  Scopes
	Asserts Asserts
}

// IsSPIFFEPattern says whether this may be Certificate.SPIFFE.
func IsSPIFFEPattern(v string) bool { return isSPIFFE(v, true) }

// Tenants says which tenants there are.
type Tenants interface {
	// Lookup answers from memory, and must not block. s is nil where there is no such tenant.
	Lookup(id string) (s *Settings, known bool)
	// Settings may wait, until ctx ends. It is nil where there is no such tenant.
	Settings(ctx context.Context, id string) (*Settings, *call.Refusal)
}

// Certificates finds out who calls by the certificates of their connections.
type Certificates struct {
	tenants Tenants
	now     func() time.Time
	rules   atomic.Pointer[rules]
}

// rules are never changed: others are another value.
type rules struct{ all []Certificate }

// match is what some rules say of a peer. It is never changed.
type match struct {
	rules *rules
	rule  *Certificate // nil: none is for it
	name  string       // by which
}

// NewCertificates makes it without any rule. now is the clock; nil: the system's.
func NewCertificates(tenants Tenants, now func() time.Time) *Certificates {
	if now == nil {
		now = time.Now
	}
	c := &Certificates{tenants: tenants, now: now}
	c.Replace(nil)
	return c
}

// Replace puts other rules in force, also for connections that are there. The first that is for
// a certificate counts.
func (c *Certificates) Replace(all []Certificate) { c.rules.Store(&rules{all}) }

// Lookup finds out who calls by a claim that has a Peer and no credential. Key of the answer
// is the name in the certificate.
func (c *Certificates) Lookup(claim Credentials) (who Identity, known bool, refusal *call.Refusal) {
	m := c.match(claim.Peer)
	if m.rule == nil {
		return Identity{}, true, m.refusal()
	}
	settings, known := c.tenants.Lookup(m.rule.Tenant)
	if !known {
		return Identity{}, false, nil
	}
	who, refusal = c.answer(m, settings, claim)
	return who, true, refusal
}

// Authenticate does the same, and may wait until it is known whether there is the tenant.
func (c *Certificates) Authenticate(ctx context.Context, claim Credentials) (Identity, *call.Refusal) {
	m := c.match(claim.Peer)
	if m.rule == nil {
		return Identity{}, m.refusal()
	}
	settings, refusal := c.tenants.Settings(ctx, m.rule.Tenant)
	if refusal != nil {
		return Identity{}, refusal
	}
	return c.answer(m, settings, claim)
}

func (c *Certificates) answer(m *match, settings *Settings, claim Credentials) (Identity, *call.Refusal) {
	if settings == nil {
		return Identity{}, refusedCertificate
	}
	who := Identity{Tenant: m.rule.Tenant, Key: m.name, Scopes: m.rule.Scopes, Settings: settings}
	if !c.now().Before(claim.Peer.Expires) {
		return Identity{Tenant: who.Tenant, Key: who.Key}, refusedOldCertificate
	}
	return who.Assert(claim, m.rule.Asserts)
}

// refusal is of a peer for whom no rule is. Where there are none, certificates say nothing.
func (m *match) refusal() *call.Refusal {
	if len(m.rules.all) == 0 {
		return refusedNobody
	}
	return refusedCertificate
}

// match remembers with the peer what it found: a connection makes many calls.
func (c *Certificates) match(p *Peer) *match {
	now := c.rules.Load()
	if last := p.found.Load(); last != nil && last.rules == now {
		return last
	}
	m := &match{rules: now}
	for i := range now.all {
		if name := now.all[i].names(p); name != "" {
			m.rule, m.name = &now.all[i], name
			break
		}
	}
	p.found.Store(m)
	return m
}

// names is by which name a rule is for a peer; "" if it is not.
func (r *Certificate) names(p *Peer) string {
	if r.SPIFFE != "" {
		if p.SPIFFE != "" && inPath(p.SPIFFE, r.SPIFFE) {
			return p.SPIFFE
		}
		return ""
	}
	for _, name := range p.DNS {
		if name == r.DNS {
			return name
		}
		_, above, _ := strings.Cut(name, ".")
		if parent, any := strings.CutPrefix(r.DNS, "*."); any && above == parent {
			return name
		}
	}
	return ""
}

// inPath compares segment by segment.
func inPath(id, pattern string) bool {
	for {
		have, id2, more := strings.Cut(id, "/")
		want, pattern2, wantMore := strings.Cut(pattern, "/")
		if have != want && want != "*" || more != wantMore {
			return false
		}
		if !more {
			return true
		}
		id, pattern = id2, pattern2
	}
}

// The refusals of a certificate.
var (
	refusedNobody = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_MISSING",
		Message: "an API key is needed: send it as metadata or header authorization, Bearer and the key, or as " +
			"x-api-key; client certificates are of nobody here"}
	refusedCertificate = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "the client certificate is of nobody who is known here"}
	refusedOldCertificate = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_EXPIRED",
		Message: "the client certificate has expired since the connection was made"}
)
