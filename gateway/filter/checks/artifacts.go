package checks

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

const (
	// maxSearched is the maximum length of a text that a connection's reader searches for a name, in bytes. It takes
	// about 10 µs.
	maxSearched = 64 << 10
	// maxReadHere is the maximum length of a text that a connection's reader parses, in bytes. It takes at most 100
	// µs.
	maxReadHere = 2 << 10
)

// Artifacts determines which artifacts the call names.
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

// bindArtifacts determines the artifacts of a bound call, if that is certain to be fast.
func bindArtifacts(c *filter.Call, m *filter.Peeked) (refusal *call.Refusal) {
	size := m.Size()
	switch {
	case size > maxSearched:
		c.Artifacts.Unread = true
	case !mayName(m):
	case size > maxReadHere:
		c.Artifacts.Unread = true
	default:
		c.Artifacts.IDs, refusal = filter.NamedArtifacts(m, &c.Info)
	}
	return refusal
}

// mayName reports whether a decoder could find an artifact in a message.
func mayName(m *filter.Peeked) bool {
	return dialect.MayName(m.Args) || dialect.MayName(m.Config) || len(m.Entries()) > 0
}
