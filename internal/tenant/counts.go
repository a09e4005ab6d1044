package tenant

import (
	"sync/atomic"

	"github.com/capgate/capgate/internal/call"
)

// Kind is a kind of credential.
type Kind uint8

// The kinds.
const (
	KindKey Kind = iota
	KindToken
	KindCertificate
	KindListener // no credential, at a listener of a tenant
	numKinds
)

func (k Kind) String() string {
	return [numKinds]string{"key", "token", "certificate", "listener"}[k]
}

// Result is the result of an authentication.
type Result uint8

// The results.
const (
	FromMemory        Result = iota // answered from memory
	FromSource                      // the store, or an issuer, answered
	Rejected                        // the credential is not valid, or not for this
	SourceUnavailable               // the store, or the issuer, did not answer
	numResults
)

func (r Result) String() string {
	return [numResults]string{"memory", "asked", "refused", "away"}[r]
}

// counts holds the number of results by kind.
type counts [numKinds]struct {
	by [numResults]atomic.Int64
	_  [64 - 8*numResults%64]byte
}

// add counts one authentication. The argument how is its result if it was not refused.
func (c *counts) add(k Kind, how Result, refusal *call.Refusal) {
	switch {
	case refusal == nil:
	case refusal.Kind == call.Unavailable:
		how = SourceUnavailable
	default:
		how = Rejected
	}
	c[k].by[how].Add(1)
}

// Each calls f with each count. Counts only grow.
func (i *Authenticators) Each(f func(k Kind, r Result, n int64)) {
	for k := range numKinds {
		for r := range numResults {
			f(k, r, i.counts[k].by[r].Load())
		}
	}
}
