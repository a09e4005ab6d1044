package tenant

import (
	"context"
	"strings"

	"github.com/capgate/capgate/internal/call"
)

// Source knows who shows one kind of credential.
type Source interface {
	// Identify answers from memory, and must not block: it runs on a connection's reader. The
	// claim's strings are parts of the call's headers; User and Agent of the answer may be
	// parts of them, Tenant and Key may not. Where it does not know, Ask does.
	Identify(Claim) (who Identity, known bool, refusal *call.Refusal)
	// Ask may wait, until ctx ends. The claim's strings are its own.
	Ask(context.Context, Claim) (Identity, *call.Refusal)
}

// Sources are what is asked about each kind of credential; nil: that kind is not taken.
type Sources struct {
	File   *Keys   // API keys of the configuration; required
	Stored *Stored // and those of the store, where the configuration has not one of the same id
	Tokens Source  // whatever is not an API key

	Certificates *Certificates // of connections, where a call shows no credential
}

// Identities finds out who calls, by whichever credential is shown.
type Identities struct {
	Sources
	counts counts
}

// NewIdentities asks some sources.
func NewIdentities(s Sources) *Identities { return &Identities{Sources: s} }

// Identify implements Source.
func (i *Identities) Identify(c Claim) (who Identity, known bool, refusal *call.Refusal) {
	kind, source := i.source(c)
	if source == nil {
		i.counts.add(kind, Memory, refusedCredential)
		return Identity{}, true, refusedCredential
	}
	if who, known, refusal = source.Identify(c); known {
		i.counts.add(kind, Memory, refusal)
	}
	return who, known, refusal
}

// Ask implements Source.
func (i *Identities) Ask(ctx context.Context, c Claim) (who Identity, refusal *call.Refusal) {
	kind, source := i.source(c)
	if source == nil {
		return Identity{}, refusedCredential
	}
	who, refusal = source.Ask(ctx, c)
	i.counts.add(kind, Asked, refusal)
	return who, refusal
}

// holder is the API key with this id, whoever shows it; nil: there is none. It answers from memory, as
// Identify does; where it does not know, askHolder does.
func (i *Identities) holder(id string) (k *known, found bool) {
	if k := i.File.known.Load().keys[id]; k != nil || i.Stored == nil {
		return k, true
	}
	return i.Stored.keys.get(id)
}

// askHolder may wait, until ctx ends.
func (i *Identities) askHolder(ctx context.Context, id string) (*known, *call.Refusal) {
	if k, found := i.holder(id); found {
		return k, nil
	}
	return i.Stored.keys.ask(ctx, id)
}

// source is what knows a claim of this form.
func (i *Identities) source(c Claim) (Kind, Source) {
	if c.Peer != nil && i.Certificates != nil {
		return ACertificate, i.Certificates
	}
	switch id, _, ok := ParseCredential(c.Credential); {
	case ok && i.Stored != nil && !i.File.has(id):
		return AKey, i.Stored
	case ok || i.Tokens == nil || strings.HasPrefix(c.Credential, Prefix):
		return AKey, i.File
	}
	return AToken, i.Tokens
}
