package idempotency_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/testkit/check"
)

// expect makes a call and returns its result: the reason of a rejection, or the response, with the prefix "again: " for
// a repeat.
func expect(t *testing.T, k *idempotency.Service, what string, r *idempotency.Request, run idempotency.Run,
	want string) {
	t.Helper()
	answer, repeat, refusal := k.Do(check.Context(t), r, run)
	got := string(answer)
	switch {
	case refusal != nil:
		got = refusal.Reason
	case repeat:
		got = "again: " + got
	}
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// never returns a run that fails the test if it is called.
func never(t *testing.T) idempotency.Run {
	return func(context.Context) ([]byte, idempotency.Outcome) {
		t.Error("it ran")
		return nil, idempotency.Executed
	}
}

func TestWhatARepeatGets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		answer        string
		how           idempotency.Outcome
		first, second string
	}{
		{"an answer", "a", idempotency.Executed, "a", "again: a"},
		{"an empty one", "", idempotency.Executed, "", "again: "},
		{
			"as much as may be kept", strings.Repeat("x", 10), idempotency.Executed, strings.Repeat("x", 10),
			"again: " + strings.Repeat("x", 10),
		},
		{"more", strings.Repeat("x", 11), idempotency.Executed, strings.Repeat("x", 11),
			"IDEMPOTENCY_ANSWER_TOO_LARGE"},
		{"doubt", "lost", idempotency.InDoubt, "lost", "IDEMPOTENCY_OUTCOME_UNKNOWN"},
		{"another try", "no backend", idempotency.NotStarted, "no backend", "second"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMemory()
			k := service(t, m, idempotency.Options{MaxAnswer: 10})
			expect(t, k, "the first", request("{}"), says(tt.answer, tt.how), tt.first)
			expect(t, service(t, m, idempotency.Options{}), "a repeat", request("{}"),
				says("second", idempotency.Executed), tt.second)
		})
	}
}

func TestWhatBindsAKey(t *testing.T) {
	t.Parallel()
	m := newMemory()
	keys := idempotency.Options{Keys: [][]byte{key(1), key(2)}}
	k := service(t, m, keys)
	expect(t, k, "the first", request("{}"), says("first", idempotency.Executed), "first")
	for what, change := range map[string]func(*idempotency.Request){
		"method":     func(r *idempotency.Request) { r.Method = "Other" },
		"capability": func(r *idempotency.Request) { r.Capability = "other" },
		"tool":       func(r *idempotency.Request) { r.Tool = "other" },
		"session":    func(r *idempotency.Request) { r.Session = "other" },
		"args":       func(r *idempotency.Request) { r.Args = []byte("{ }") },
		"a border":   func(r *idempotency.Request) { r.Tool, r.Session = "sends", "" },
	} {
		r := request("{}")
		change(r)
		expect(t, k, what, r, never(t), "IDEMPOTENCY_KEY_REUSED")
	}
	for what, change := range map[string]func(*idempotency.Request){
		"tenant": func(r *idempotency.Request) { r.Tenant = "other" },
		"uid":    func(r *idempotency.Request) { r.UID = "other" },
		"user":   func(r *idempotency.Request) { r.User = "other" },
		"agent":  func(r *idempotency.Request) { r.Agent = "other" },
		"key":    func(r *idempotency.Request) { r.Key = "K" },
	} {
		r := request("{}")
		change(r)
		expect(t, k, what, r, says(what, idempotency.Executed), what)
	}
	expect(t, service(t, m, idempotency.Options{Keys: [][]byte{key(3), key(1)}}), "after a new key", request("{}"),
		never(t), "again: first")
	expect(t, service(t, m, idempotency.Options{Keys: [][]byte{key(3)}}), "without the old one", request("{}"),
		never(t), "IDEMPOTENCY_UNAVAILABLE")
	m.set(func(m *memory) {
		for id, f := range m.all {
			if len(f.Sealed) > 0 {
				f.Sealed = append([]byte{9}, f.Sealed...)
				m.all[id] = f
			}
		}
	})
	// k may still hold the answer for a call that was refused before.
	expect(t, service(t, m, keys), "a spoilt answer", request("{}"), never(t), "IDEMPOTENCY_UNAVAILABLE")
}

func TestCallsThatAreNotMade(t *testing.T) {
	t.Parallel()
	m := newMemory()
	k := service(t, m, idempotency.Options{MaxKeys: 1})
	only := request("{}")
	only.Only = &call.Refusal{Reason: "APPROVAL_USED"}
	expect(t, k, "what may not run, and did not", only, never(t), "APPROVAL_USED")
	expect(t, k, "the first", request("{}"), says("a", idempotency.Executed), "a")
	expect(t, k, "what may not run, and did", only, never(t), "again: a")
	r := request("{}")
	r.Key = "another"
	expect(t, k, "one key too many", r, never(t), "IDEMPOTENCY_KEYS_FULL")
	off, err := idempotency.New(m, idempotency.Options{})
	check.Must(t, err)
	expect(t, off, "without a key to encrypt with", r, never(t), "IDEMPOTENCY_OFF")
	if _, err := idempotency.New(m, idempotency.Options{Keys: [][]byte{{1}}}); err == nil {
		t.Error("a short key is taken")
	}
	m.set(func(m *memory) { m.unavailable = true })
	expect(t, k, "without a store", request("{}"), never(t), "IDEMPOTENCY_UNAVAILABLE")
	k.Close()
	expect(t, k, "after the end", r, never(t), "IDEMPOTENCY_UNAVAILABLE")
}

// TestTheStoreGoesAwayMeanwhile: the caller gets the response, and so do repeats at the same replica. The store
// receives it when it is available again.
func TestTheStoreGoesAwayMeanwhile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		how                 idempotency.Outcome
		here, after, second string
	}{
		{idempotency.Executed, "again: a", "again: a", ""},
		{idempotency.NotStarted, "IDEMPOTENCY_UNAVAILABLE", "b", "again: b"},
		{idempotency.InDoubt, "IDEMPOTENCY_OUTCOME_UNKNOWN", "IDEMPOTENCY_OUTCOME_UNKNOWN", ""},
	} {
		m := newMemory()
		k := service(t, m, idempotency.Options{})
		expect(t, k, "the first", request("{}"), func(context.Context) ([]byte, idempotency.Outcome) {
			m.set(func(m *memory) { m.deaf = true })
			return []byte("a"), tt.how
		}, "a")
		expect(t, k, "a repeat here", request("{}"), never(t), tt.here)
		m.set(func(m *memory) { m.deaf = false })
		elsewhere := service(t, m, idempotency.Options{Poll: time.Millisecond})
		expect(t, elsewhere, "a repeat elsewhere", request("{}"), says("b", idempotency.Executed), tt.after)
	}
}

// TestTheCallerLeaves: the call continues to its end for a later repeat, within its deadline.
func TestTheCallerLeaves(t *testing.T) {
	t.Parallel()
	m := newMemory()
	k := service(t, m, idempotency.Options{})
	deadline := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	runs, release := make(chan context.Context, 1), make(chan struct{})
	left := make(chan *call.Refusal)
	go func() {
		_, _, refusal := k.Do(ctx, request("{}"), func(ctx context.Context) ([]byte, idempotency.Outcome) {
			runs <- ctx
			<-release
			return []byte("a"), idempotency.Executed
		})
		left <- refusal
	}()
	running := check.Received(t, runs, "the call to run")
	cancel()
	if refusal := check.Received(t, left, "the refusal of who left"); refusal == nil || refusal.Kind != call.Canceled {
		t.Errorf("who left got %v", refusal)
	}
	if at, has := running.Deadline(); running.Err() != nil || !has || !at.Equal(deadline) {
		t.Errorf("it was ended: %v, by %v; has %+v", running.Err(), at, has)
	}
	other := request("[]")
	expect(t, k, "another one while it runs", other, never(t), "IDEMPOTENCY_KEY_REUSED")
	if n := k.Stats().Running; n != 1 {
		t.Errorf("%d run", n)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, _, refusal := k.Do(ctx, request("{}"), never(t)); refusal == nil || refusal.Kind != call.Canceled {
		t.Errorf("who has no time got %v", refusal)
	}
	close(release)
	expect(t, k, "who comes back", request("{}"), never(t), "again: a")
}

func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	k := service(t, newMemory(), idempotency.Options{Calls: 2})
	expect(t, k, "the first", request("{}"), func(ctx context.Context) ([]byte, idempotency.Outcome) {
		expect(t, k, "another meanwhile", request("{}"), never(t), "IDEMPOTENCY_UNAVAILABLE")
		return []byte("a"), idempotency.Executed
	}, "a")
	s := k.Stats()
	if s.Running != 0 || s.Waiting != 0 || s.Calls["first"] != 1 || s.Calls["unavailable"] != 1 {
		t.Errorf("%+v", s)
	}
	for range 3 {
		expect(t, k, "a later one", request("{}"), never(t), "again: a")
	}
}

// TestOneTenantDoesNotFillTheCalls: the maximum number of one tenant's running calls with keys leaves room for another
// tenant's.
func TestOneTenantDoesNotFillTheCalls(t *testing.T) {
	t.Parallel()
	k := service(t, newMemory(), idempotency.Options{Calls: 10})
	began, release := make(chan struct{}), make(chan struct{})
	ended := make(chan *call.Refusal, 10)
	of := func(tenant, key string) *idempotency.Request {
		r := request("{}")
		r.Tenant, r.Key = tenant, key
		return r
	}
	for i := range 10 {
		go func() {
			_, _, refusal := k.Do(t.Context(), of("acme", strings.Repeat("k", i+1)),
				func(context.Context) ([]byte, idempotency.Outcome) {
					began <- struct{}{}
					<-release
					return nil, idempotency.Executed
				})
			ended <- refusal
		}()
	}
	for range 8 {
		check.Received(t, began, "the call to start")
	}
	for range 2 {
		if refusal := check.Received(t, ended, "the end of the call"); refusal == nil ||
			refusal.Reason != "IDEMPOTENCY_UNAVAILABLE" {
			t.Errorf("what is too much: %v", refusal)
		}
	}
	expect(t, k, "another tenant's", of("globex", "k"), says("a", idempotency.Executed), "a")
	close(release)
	for range 8 {
		if refusal := check.Received(t, ended, "the end of the call"); refusal != nil {
			t.Errorf("what fits: %v", refusal)
		}
	}
}

func TestValid(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{
		"a": true, `"8e03978e-40d5-43dd-bc93-6894a57f9324"`: true, strings.Repeat("~", 255): true, "two words": true,
		"": false, strings.Repeat("a", 256): false, "a\n": false, "é": false, "\x7f": false,
	} {
		if idempotency.Valid(key) != want {
			t.Errorf("%q: not %v", key, want)
		}
	}
}
