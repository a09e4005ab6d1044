package gateway

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

const (
	// What a connection's reader looks at itself is little: a text of so many bytes is searched
	// for a name, in some 10 µs, and a shorter one is read, in at most 100.
	maxSearched = 64 << 10
	maxReadHere = 2 << 10
)

// bindArtifacts finds the artifacts that a bound call names, here if that is surely done soon.
func bindArtifacts(t *filter.Call, m *filter.Peeked) (refusal *call.Refusal) {
	size := m.Size()
	switch {
	case size > maxSearched:
		t.Artifacts.Unread = true
	case !mayName(m):
	case size > maxReadHere:
		t.Artifacts.Unread = true
	default:
		t.Artifacts.IDs, refusal = filter.NamedArtifacts(m, &t.Info)
	}
	return refusal
}

// mayName says whether anybody could find an artifact in what a call brings.
func mayName(m *filter.Peeked) bool {
	return dialect.MayName(m.Args) || dialect.MayName(m.Config) || len(m.Entries()) > 0
}
