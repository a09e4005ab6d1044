package gateway

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

// sessionHeader names the session of a call whose message does not.
const sessionHeader = "x-session-id"

// maxSession is the longest id of a session that a fleet with affinity takes, in bytes.
const maxSession = 512

// readSession finds out to which session the call belongs.
func readSession(t *filter.Call) *call.Refusal {
	if !t.Fleet.HasSessions() {
		return nil
	}
	id, _ := t.Stream.Header(sessionHeader)
	if t.Principal.Only != nil {
		id = t.Principal.Only.Session
	}
	if id != "" && t.Info.Session != "" && id != t.Info.Session || t.Stream.Contradicts(sessionHeader) {
		return refusedTwoSessions
	}
	if t.Info.Session == "" {
		t.Info.Session = t.Keep(id)
	}
	if len(t.Info.Session) > maxSession {
		return refusedSession
	}
	return nil
}

// forgetSession has nobody come back to the session of a call that the gateway itself makes.
func forgetSession(t *filter.Call) { t.Info.Session = "" }

// readArtifacts finds out which artifacts the call names.
func readArtifacts(t *filter.Call) *call.Refusal {
	m := t.Fields()
	switch binds := t.Principal.Bound(); {
	case !binds && !t.Fleet.TracksArtifacts():
	case len(m.Artifact) > 0, binds && t.Info.Method == call.DownloadOutputArtifact:
		t.Artifacts.IDs = []string{string(m.Artifact)}
	case binds:
		return bindArtifacts(t, &m)
	default:
		t.Artifacts.IDs = dialect.Named(m.Args)
	}
	return nil
}
