package tenant

import (
	"sync/atomic"

	"github.com/capgate/capgate/internal/call"
)

// Kind is a kind of credential.
type Kind uint8

// The kinds.
const (
	AKey Kind = iota
	AToken
	ACertificate
	numKinds
)

func (k Kind) String() string {
	return [numKinds]string{"key", "token", "certificate"}[k]
}

// Result is how it was found out who shows one.
type Result uint8

// The results.
const (
	Memory  Result = iota // known at once
	Asked                 // the store was asked, or whoever else knows
	Refused               // it is not good, or not for this
	Away                  // who would know did not answer
	numResults
)

func (r Result) String() string {
	return [numResults]string{"memory", "asked", "refused", "away"}[r]
}

// counts are how often each kind had each result.
type counts [numKinds]struct {
	by [numResults]atomic.Int64
	_  [64 - 8*numResults%64]byte
}

// add counts one, of which how is known where it was not refused.
func (c *counts) add(k Kind, how Result, refusal *call.Refusal) {
	switch {
	case refusal == nil:
	case refusal.Kind == call.Unavailable:
		how = Away
	default:
		how = Refused
	}
	c[k].by[how].Add(1)
}

// Each calls f with each count. They only grow.
func (i *Identities) Each(f func(k Kind, r Result, n int64)) {
	for k := range numKinds {
		for r := range numResults {
			f(k, r, i.counts[k].by[r].Load())
		}
	}
}
