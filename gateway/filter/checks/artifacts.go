package checks

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

const (
	// maxSearched is the length of the longest text that a connection's reader searches for a name itself, in bytes.
	// It takes some 10 µs.
	maxSearched = 64 << 10
	// maxReadHere is the length of the longest text that it reads itself, in bytes. It takes at most 100 µs.
	maxReadHere = 2 << 10
)

// Artifacts finds out which artifacts the call names.
func Artifacts(c *filter.Call) *call.Refusal {
	m := c.Fields()
	switch binds := c.Principal.Bound(); {
	case !binds && !c.Fleet.TracksArtifacts():
	case len(m.Artifact) > 0, binds && c.Info.Method == call.DownloadOutputArtifact:
		c.Artifacts.IDs = []string{string(m.Artifact)}
	case binds:
		return bindArtifacts(c, &m)
	default:
		c.Artifacts.IDs = dialect.Named(m.Args)
	}
	return nil
}

// bindArtifacts finds the artifacts that a bound call names, here if that is surely done soon.
func bindArtifacts(c *filter.Call, m *filter.Peeked) (refusal *call.Refusal) {
	size := m.Size()
	switch {
	case size > maxSearched:
		c.Principal.ArtifactsUnread = true
	case !mayName(m):
	case size > maxReadHere:
		c.Principal.ArtifactsUnread = true
	default:
		c.Artifacts.IDs, refusal = filter.NamedArtifacts(m, &c.Info)
	}
	return refusal
}

// mayName reports whether a decoder could find an artifact in a message.
func mayName(m *filter.Peeked) bool {
	return dialect.MayName(m.Args) || dialect.MayName(m.Config) || len(m.Entries()) > 0
}
