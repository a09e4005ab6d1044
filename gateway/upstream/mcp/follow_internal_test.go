package mcp

import (
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/gateway/questions"
)

// TestUpdatesOfResources: a message is an update of the resource if its URI is that of the resource or of a part of it.
func TestUpdatesOfResources(t *testing.T) {
	t.Parallel()
	for params, want := range map[string]int32{`{"uri":"note://a"}`: 1, `{"uri":"note://a/part"}`: 1,
		`{"uri":"note://b"}`: 0, `{"uri":"note://ab"}`: 0, `{"uri":"note://"}`: 0, `{"uri":7}`: 0, `{}`: 0, `[]`: 0,
		`"note://a"`: 0} {
		var updates atomic.Int32
		f := newFollow(t.Context(), "note://a", &questions.Follower{Context: t.Context(),
			Updated: func() { updates.Add(1) }})
		for name, of := range map[string]hearer{"2026-07-28": &followStream{follow: f, isOpen: true},
			"2025-11-25": &listener{follows: map[*follow]struct{}{f: {}}}} {
			updates.Store(0)
			if err := of.heard(nil, nil, []byte(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":`+
				params+`}`)); err != nil || updates.Load() != want {
				t.Errorf("%s %s: %d updates, %v", name, params, updates.Load(), err)
			}
		}
		f.end()
	}
}
