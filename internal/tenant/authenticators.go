package tenant

import (
	"context"
	"strings"

	"github.com/capgate/capgate/internal/call"
)

// Authenticator authenticates callers by one kind of credential.
type Authenticator interface {
	// Lookup answers from memory, and must not block, because it runs on a connection's reader. The strings of
	// the credentials are parts of the call's headers. User and Agent of the result may be parts of them,
	// Tenant and Key may not. If known is false, call Authenticate.
	Lookup(Credentials) (identity Identity, known bool, refusal *call.Refusal)
	// Authenticate may wait until ctx ends. It owns the strings of the credentials.
	Authenticate(context.Context, Credentials) (Identity, *call.Refusal)
}

// Sources are the authenticators for each kind of credential. A nil source rejects its kind.
type Sources struct {
	File   *Keys         // API keys of the configuration; required
	Stored *Stored       // API keys of the store; those of the configuration take precedence
	Tokens Authenticator // bearer tokens: whatever is not an API key

	Certificates *Certificates // client certificates, for calls without a credential
	Listeners    *Listeners    // of tenants, for calls without either

	Tenants Tenants // of all callers, for StillValid; nil: it does not compare settings
}

// Authenticators authenticates callers by any kind of credential.
type Authenticators struct {
	Sources
	counts counts
}

// NewAuthenticators returns Authenticators with the given sources.
func NewAuthenticators(s Sources) *Authenticators { return &Authenticators{Sources: s} }

// Lookup implements Authenticator.
func (i *Authenticators) Lookup(c Credentials) (identity Identity, known bool, refusal *call.Refusal) {
	if key := c.Proof.keyOf(i.File, c.Credential); key != nil { // most calls of a connection
		identity, refusal = key.authenticate(c, key.settings, i.File.now)
		i.counts.add(KindKey, FromMemory, refusal)
		return identity, true, refusal
	}
	kind, source := i.authenticator(c)
	if source == nil {
		i.counts.add(kind, FromMemory, refusedCredential)
		return Identity{}, true, refusedCredential
	}
	if identity, known, refusal = source.Lookup(c); known {
		i.counts.add(kind, FromMemory, refusal)
	}
	return identity, known, refusal
}

// Authenticate implements Authenticator.
func (i *Authenticators) Authenticate(ctx context.Context, c Credentials) (identity Identity, refusal *call.Refusal) {
	kind, source := i.authenticator(c)
	if source == nil {
		return Identity{}, refusedCredential
	}
	identity, refusal = source.Authenticate(ctx, c)
	i.counts.add(kind, FromSource, refusal)
	return identity, refusal
}

// keyByID returns the API key with this id; nil if there is none. It answers from memory. If found is false, call
// loadKey.
func (i *Authenticators) keyByID(id string) (k *cachedKey, found bool) {
	if k := i.File.known.Load().keys[id]; k != nil || i.Stored == nil {
		return k, true
	}
	return i.Stored.keys.lookup(id)
}

// loadKey may wait until ctx ends.
func (i *Authenticators) loadKey(ctx context.Context, id string) (*cachedKey, *call.Refusal) {
	if k, found := i.keyByID(id); found {
		return k, nil
	}
	return i.Stored.keys.fetch(ctx, id)
}

// authenticator returns the authenticator for the kind of the credentials.
func (i *Authenticators) authenticator(c Credentials) (Kind, Authenticator) {
	if i.Listeners != nil && c.At.Anonymous() && c.Credential == "" && !i.Certificates.Names(c.Peer) {
		return KindListener, i.Listeners
	}
	if c.Peer != nil && i.Certificates != nil {
		return KindCertificate, i.Certificates
	}
	switch id, _, ok := ParseCredential(c.Credential); {
	case ok && i.Stored != nil && !i.File.has(id):
		return KindKey, i.Stored
	case ok || i.Tokens == nil || strings.HasPrefix(c.Credential, Prefix):
		return KindKey, i.File
	}
	return KindToken, i.Tokens
}
