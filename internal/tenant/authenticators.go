package tenant

import (
	"context"
	"strings"

	"github.com/capgate/capgate/internal/call"
)

// Authenticator knows who shows one kind of credential.
type Authenticator interface {
	// Lookup answers from memory, and must not block: it runs on a connection's reader. The
	// claim's strings are parts of the call's headers; User and Agent of the answer may be
	// parts of them, Tenant and Key may not. Where it does not know, Ask does.
	Lookup(Credentials) (who Identity, known bool, refusal *call.Refusal)
	// Authenticate may wait, until ctx ends. The claim's strings are its own.
	Authenticate(context.Context, Credentials) (Identity, *call.Refusal)
}

// Sources are what is asked about each kind of credential; nil: that kind is not taken.
type Sources struct {
	File   *Keys         // API keys of the configuration; required
	Stored *Stored       // and those of the store, where the configuration has not one of the same id
	Tokens Authenticator // whatever is not an API key

	Certificates *Certificates // of connections, where a call shows no credential
}

// Authenticators finds out who calls, by whichever credential is shown.
type Authenticators struct {
	Sources
	counts counts
}

// NewAuthenticators asks some sources.
func NewAuthenticators(s Sources) *Authenticators { return &Authenticators{Sources: s} }

// Lookup implements Source.
func (i *Authenticators) Lookup(c Credentials) (who Identity, known bool, refusal *call.Refusal) {
	kind, source := i.authenticator(c)
	if source == nil {
		i.counts.add(kind, FromMemory, refusedCredential)
		return Identity{}, true, refusedCredential
	}
	if who, known, refusal = source.Lookup(c); known {
		i.counts.add(kind, FromMemory, refusal)
	}
	return who, known, refusal
}

// Authenticate implements Source.
func (i *Authenticators) Authenticate(ctx context.Context, c Credentials) (who Identity, refusal *call.Refusal) {
	kind, source := i.authenticator(c)
	if source == nil {
		return Identity{}, refusedCredential
	}
	who, refusal = source.Authenticate(ctx, c)
	i.counts.add(kind, FromSource, refusal)
	return who, refusal
}

// keyByID is the API key with this id, whoever shows it; nil: there is none. It answers from memory, as
// Identify does; where it does not know, loadKey does.
func (i *Authenticators) keyByID(id string) (k *cachedKey, found bool) {
	if k := i.File.known.Load().keys[id]; k != nil || i.Stored == nil {
		return k, true
	}
	return i.Stored.keys.lookup(id)
}

// loadKey may wait, until ctx ends.
func (i *Authenticators) loadKey(ctx context.Context, id string) (*cachedKey, *call.Refusal) {
	if k, found := i.keyByID(id); found {
		return k, nil
	}
	return i.Stored.keys.fetch(ctx, id)
}

// authenticator is what knows a claim of this form.
func (i *Authenticators) authenticator(c Credentials) (Kind, Authenticator) {
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
