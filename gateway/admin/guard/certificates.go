package guard

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
)

// Certificate gives the holders of client certificates roles. It has either SPIFFE or DNS.
type Certificate struct {
	// SPIFFE ID, where * matches one segment of the path, as in spiffe://example.org/ns/*/sa/ops; or dns.
	SPIFFE string `yaml:"spiffe" kind:"spiffe"`
	// Name in the certificate. Its first label may be *.
	DNS string `yaml:"dns" kind:"certificate_name"`
	// Their roles.
	Roles operator.Roles `yaml:"roles" default:"[viewer]"`
	// The only tenant of their roles. Default all.
	Tenant string `yaml:"tenant" kind:"tenant"`
}

// Check checks that there is one name.
func (c *Certificate) Check(at strictyaml.At) {
	if at.Has("spiffe") == at.Has("dns") {
		at.Missing("spiffe", "required: the SPIFFE ID of the certificates, as in "+
			"spiffe://example.org/ns/ops/sa/deployer; or dns; not both")
	}
}

// name returns the name in a certificate that the rule matches, or "".
func (c *Certificate) name(peer *tenant.Peer) string {
	return (&tenant.Certificate{SPIFFE: c.SPIFFE, DNS: c.DNS}).Names(peer)
}

// Certificates authenticates operators by their client certificates.
type Certificates struct {
	now   func() time.Time
	rules atomic.Pointer[[]Certificate]
}

// NewCertificates returns Certificates without rules. now is the clock; nil means the system clock.
func NewCertificates(now func() time.Time) *Certificates {
	if now == nil {
		now = time.Now
	}
	c := &Certificates{now: now}
	c.Replace(nil)
	return c
}

// Replace replaces the rules, also for existing connections. The first matching rule applies.
func (c *Certificates) Replace(rules []Certificate) { c.rules.Store(&rules) }

// Authenticate implements Authenticator. Any other credential of the request takes precedence.
func (c *Certificates) Authenticate(r *http.Request) (*operator.Identity, bool, *call.Refusal) {
	if _, present := Credential(r); present {
		return nil, false, nil
	}
	peer := peerOf(r)
	if peer == nil {
		return nil, false, nil
	}
	rules := *c.rules.Load()
	for i := range rules {
		name := rules[i].name(peer)
		if name == "" {
			continue
		}
		if !c.now().Before(peer.Expires) {
			return nil, true, refusedOldCertificate
		}
		identity := &operator.Identity{Name: "certificate " + name, Via: operator.ViaCertificate}
		identity.Grant(rules[i].Tenant, rules[i].Roles)
		return identity, true, nil
	}
	return nil, false, nil
}

// peerOf returns the verified client certificate of a request's connection; nil means none.
func peerOf(r *http.Request) *tenant.Peer {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.VerifiedChains[0]) == 0 {
		return nil
	}
	return tenant.PeerOf(r.TLS.VerifiedChains[0][0])
}

var refusedOldCertificate = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_EXPIRED",
	Message: "the client certificate has expired since the handshake"}
