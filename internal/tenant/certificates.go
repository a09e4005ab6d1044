package tenant

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Certificate maps client certificates to a tenant. It has either SPIFFE or DNS.
type Certificate struct {
	// SPIFFE ID, where * matches one segment of the path, as in spiffe://example.org/ns/*/sa/orch; or dns.
	SPIFFE string `yaml:"spiffe" kind:"spiffe"`
	// Name in the certificate. Its first label may be *.
	DNS string `yaml:"dns" kind:"certificate_name"`
	// Tenant of the callers with these certificates.
	Tenant string `yaml:"tenant" kind:"tenant" required:""`
	// Their scopes.
	Scopes Scopes `yaml:"scopes" default:"[invoke, read]"`
	// Names that they may assert with x-user-id and x-agent-id. Default none.
	Asserts Asserts `yaml:"asserts"`
}

// Check checks that there is one name.
func (c *Certificate) Check(at strictyaml.At) {
	if at.Has("spiffe") == at.Has("dns") {
		at.Missing("spiffe", "required: the SPIFFE ID of the certificates, as in "+
			"spiffe://example.org/ns/tools/sa/orchestrator; or dns; not both")
	}
}

// IsSPIFFEPattern reports whether v may be Certificate.SPIFFE.
func IsSPIFFEPattern(v string) bool { return isSPIFFE(v, true) }

// Tenants looks up tenants.
type Tenants interface {
	// Lookup answers from memory, and must not block. It returns nil if there is no such tenant.
	Lookup(id string) (s *Settings, known bool)
	// Settings may wait until ctx ends. It returns nil if there is no such tenant.
	Settings(ctx context.Context, id string) (*Settings, *call.Refusal)
}

// Certificates authenticates callers by the client certificates of their connections.
type Certificates struct {
	tenants Tenants
	now     func() time.Time
	rules   atomic.Pointer[rules]
}

// rules are immutable. Replace stores another value.
type rules struct{ all []Certificate }

// match is the result of the rules for a peer. It is immutable.
type match struct {
	by    *Certificates
	peer  *Peer
	rules *rules
	rule  *Certificate // nil: no rule matches
	name  string       // the name that matched
}

// StillValid implements Validity.
func (m *match) StillValid(ctx context.Context) bool {
	now := m.by.match(m.peer)
	if now.rule == nil || now.name != m.name || now.rule.Tenant != m.rule.Tenant || now.rule.Scopes != m.rule.Scopes ||
		!m.by.now().Before(m.peer.Expires) {
		return false
	}
	return StillEnabled(ctx, m.by.tenants, m.rule.Tenant)
}

// NewCertificates returns Certificates without rules. The argument now is the clock; nil: the system's.
func NewCertificates(tenants Tenants, now func() time.Time) *Certificates {
	if now == nil {
		now = time.Now
	}
	c := &Certificates{tenants: tenants, now: now}
	c.Replace(nil)
	return c
}

// Replace replaces the rules, also for existing connections. The first rule that matches a certificate counts.
func (c *Certificates) Replace(all []Certificate) { c.rules.Store(&rules{all}) }

// Lookup authenticates credentials that have a Peer and no Credential. Key of the result is the name in the
// certificate.
func (c *Certificates) Lookup(claim Credentials) (identity Identity, known bool, refusal *call.Refusal) {
	m := c.match(claim.Peer)
	if m.rule == nil {
		return Identity{}, true, m.refusal()
	}
	settings, known := c.tenants.Lookup(m.rule.Tenant)
	if !known {
		return Identity{}, false, nil
	}
	identity, refusal = c.answer(m, settings, claim)
	return identity, true, refusal
}

// Authenticate does the same, and may wait until the tenant is known.
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
	identity := Identity{Tenant: m.rule.Tenant, Key: m.name, Scopes: m.rule.Scopes, Settings: settings, Validity: m}
	if !c.now().Before(claim.Peer.Expires) {
		return identity.refused(), refusedOldCertificate
	}
	return identity.Assert(claim, m.rule.Asserts)
}

// Names reports whether a certificate, which may be nil, belongs to a tenant.
func (c *Certificates) Names(p *Peer) bool { return c != nil && p != nil && c.match(p).rule != nil }

// refusal returns the refusal of a peer that no rule matches. Without rules, certificates do not count.
func (m *match) refusal() *call.Refusal {
	if len(m.rules.all) == 0 {
		return refusedNobody
	}
	return refusedCertificate
}

// match returns the match of a peer, and caches it with the peer, because a connection makes many calls.
func (c *Certificates) match(p *Peer) *match {
	now := c.rules.Load()
	if last := p.found.Load(); last != nil && last.rules == now {
		return last
	}
	m := &match{by: c, peer: p, rules: now}
	for i := range now.all {
		if name := now.all[i].Names(p); name != "" {
			m.rule, m.name = &now.all[i], name
			break
		}
	}
	p.found.Store(m)
	return m
}

// Names returns the name of the peer that the rule matches, or "".
func (c *Certificate) Names(p *Peer) string {
	if c.SPIFFE != "" {
		if p.SPIFFE != "" && inPath(p.SPIFFE, c.SPIFFE) {
			return p.SPIFFE
		}
		return ""
	}
	for _, name := range p.DNS {
		if name == c.DNS {
			return name
		}
		_, above, _ := strings.Cut(name, ".")
		if parent, any := strings.CutPrefix(c.DNS, "*."); any && above == parent {
			return name
		}
	}
	return ""
}

// inPath compares two SPIFFE IDs segment by segment.
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

// Refusals of a certificate.
var (
	refusedNobody = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_MISSING",
		Message: "an API key is needed: send it as metadata or header authorization, Bearer and the key, or as " +
			"x-api-key; this gateway maps no client certificates to tenants"}
	refusedCertificate = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "the client certificate belongs to no tenant of this gateway"}
	refusedOldCertificate = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_EXPIRED",
		Message: "the client certificate has expired since the handshake"}
)
