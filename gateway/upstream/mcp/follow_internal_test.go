package mcp

import (
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/upstream"
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

// TestStreamsOfSubscriptionsAreBounded: a tenant has at most 1,000 streams of subscriptions at a server. Those of other
// tenants do not count.
func TestStreamsOfSubscriptionsAreBounded(t *testing.T) {
	t.Parallel()
	all := &upstream.Fleets[*server]{Options: upstream.Options{Room: &upstream.Room{}}}
	v := &server{all: all, follows: map[string]int{}}
	var releases []func()
	open := func(tenant string, want bool) {
		t.Helper()
		release, ok := v.chargedStream(tenant)
		if ok != want {
			t.Fatalf("stream %d of %s: %t", len(releases)+1, tenant, ok)
		}
		if ok {
			releases = append(releases, release)
		}
	}
	for range 1000 {
		open("acme", true)
	}
	open("acme", false)
	open("globex", true)
	releases[0]()
	releases = releases[1:]
	open("acme", true)
	open("acme", false)
	for _, release := range releases {
		release()
	}
	if len(v.follows) > 0 {
		t.Errorf("%v streams are left", v.follows)
	}
}
