package recent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/search"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/check"
)

// record returns the record of a call.
func record(tenant, tool string, code uint32) *telemetry.Record {
	return &telemetry.Record{Call: &call.Call{Tenant: tenant, Tool: tool, Capability: "weather", User: "ann",
		Method: call.Invoke}, Code: code, Started: time.Now(), Ended: time.Millisecond, Backend: "10.0.0.1:80",
		RequestID: "r-1"}
}

// perTenant counts the calls that a Log keeps.
func perTenant(t *testing.T, l *recent.Log) map[string]int {
	t.Helper()
	calls, partial := l.Calls(t.Context())
	if partial {
		t.Error("a replica that is alone has all calls")
	}
	of := map[string]int{}
	for i := range calls {
		of[calls[i].Tenant]++
	}
	return of
}

// TestShares: a loud tenant displaces only its own calls, and many tenants share what there is.
func TestShares(t *testing.T) {
	t.Parallel()
	l := recent.New(recent.Config{Keep: 100, Replica: "a"})
	for i := range 10 {
		l.Record(record("quiet", fmt.Sprint(i), 0))
	}
	for i := range 10_000 {
		l.Record(record("loud", fmt.Sprint(i), 0))
	}
	if of := perTenant(t, l); of["quiet"] != 10 || of["loud"] != 90 {
		t.Errorf("%v", of)
	}
	for range 3 {
		for i := range 50 {
			l.Record(record(fmt.Sprint("tenant", i), "x", 0))
		}
		l.Record(record("loud", "again", 0))
	}
	of := perTenant(t, l)
	if sum := len(of); sum != 52 {
		t.Errorf("%d tenants: %v", sum, of)
	}
	for i := range 50 {
		if of[fmt.Sprint("tenant", i)] == 0 {
			t.Errorf("tenant%d has no call: %v", i, of)
		}
	}
}

// TestManyTenants: more tenants than slots, and than a Log distinguishes, are no more than slow.
func TestManyTenants(t *testing.T) {
	t.Parallel()
	l := recent.New(recent.Config{Keep: 16, Replica: "a"})
	for i := range 5000 {
		l.Record(record(fmt.Sprint("tenant", i), "x", uint32(i%3)))
	}
	if calls, _ := l.Calls(t.Context()); len(calls) != 16 {
		t.Errorf("%d calls", len(calls))
	}
}

// TestHostileNames: whatever callers choose is bounded, valid UTF-8 and valid JSON.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	l := recent.New(recent.Config{Keep: 10, Replica: "a"})
	for _, name := range []string{"", "\x00\x01\x1b[31m\r\n", "\xff\xfe\xf0\x28", strings.Repeat("a", 64<<10),
		strings.Repeat("é", 64<<10), "\u202e<script>alert(1)</script>", strings.Repeat("\xff", 1000)} {
		c := call.Call{Tenant: "acme", User: name, Agent: name, Key: name, Path: name, Capability: name,
			Tool: name, Session: name}
		l.Record(&telemetry.Record{Call: &c, Client: name, Listener: name, Backend: name, Reason: name, Failure: name,
			Shadowed: name, RequestID: name, Started: time.Now(), Code: 99,
			Decision: telemetry.Decision{Made: true, Approval: name}})
		l.RecordChange(&recent.Change{Actor: name, What: name, Tenant: name, Targets: []recent.Target{{name, name}}})
	}
	calls, _ := l.Calls(t.Context())
	changes, _ := l.Changes(t.Context())
	if len(calls) != 7 || len(changes) != 7 {
		t.Fatalf("%d calls, %d changes", len(calls), len(changes))
	}
	for i := range calls {
		text, err := json.Marshal(&calls[i])
		if err != nil || len(text) > 16<<10 || !utf8.Valid(text) || !utf8.ValidString(calls[i].Tool) {
			t.Errorf("%d bytes, %v: %.200s; calls %+v", len(text), err, text, calls)
		}
		if text := changes[i].JSON(); len(text) > recent.MaxChangeBytes || !json.Valid(text) {
			t.Errorf("%d bytes: %.200s", len(text), text)
		}
	}
}

// TestFilter selects by each field.
func TestFilter(t *testing.T) {
	t.Parallel()
	l := recent.New(recent.Config{Keep: 10, Replica: "a"})
	rec := record("acme", strings.Repeat("t", 200), 8)
	rec.Reason = "RATE_LIMITED"
	l.Record(rec)
	calls, _ := l.Calls(t.Context())
	c := &calls[0]
	for name, test := range map[string]struct {
		filter recent.Filter
		is     bool
	}{
		"all":              {recent.Filter{}, true},
		"tenant":           {recent.Filter{Tenants: []string{"other", "acme"}}, true},
		"another tenant":   {recent.Filter{Tenants: []string{"other"}}, false},
		"no tenant":        {recent.Filter{Tenants: []string{}}, false},
		"a long name":      {recent.Filter{Tool: strings.Repeat("t", 200)}, true},
		"reason":           {recent.Filter{Reason: "RATE_LIMITED"}, true},
		"any refusal":      {recent.Filter{Reason: "*"}, true},
		"another reason":   {recent.Filter{Reason: "X"}, false},
		"code":             {recent.Filter{Code: "RESOURCE_EXHAUSTED"}, true},
		"any failure":      {recent.Filter{Code: "*"}, true},
		"OK":               {recent.Filter{Code: "OK"}, false},
		"shorter":          {recent.Filter{Took: time.Millisecond}, true},
		"longer":           {recent.Filter{Took: time.Second}, false},
		"request":          {recent.Filter{Query: search.Query{"r-1"}}, true},
		"part of a user":   {recent.Filter{Query: search.Query{"r-", "an"}}, true},
		"another request":  {recent.Filter{Query: search.Query{"r-2"}}, false},
		"user and no tool": {recent.Filter{User: "ann", Tool: "x"}, false},
	} {
		if is := test.filter.Matches(c); is != test.is {
			t.Errorf("%s: %v", name, is)
		}
	}
}

// TestAsked: a call that waits for approval is neither refused nor failed.
func TestAsked(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := recent.New(recent.Config{Keep: 10, Replica: "a", Now: func() time.Time { return now }})
	for _, reason := range []string{"APPROVAL_REQUIRED", "APPROVAL_PENDING", "APPROVAL_DENIED", ""} {
		rec := record("acme", "send_mail", 9)
		rec.Reason = reason
		l.Record(rec)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	l.Run(ctx) // one round
	minutes, _ := l.Minutes(t.Context(), []string{"acme"})
	want := recent.Counts{Calls: 4, Refusals: 1, Errors: 1, Asked: 2}
	if got := minutes[recent.Window-1].Counts; got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
	calls, _ := l.Calls(t.Context())
	refused := recent.Filter{Reason: "*"}
	for i := range calls {
		if c := &calls[i]; refused.Matches(c) != (c.Reason == "APPROVAL_DENIED") {
			t.Errorf("%q counts as refused: %v", c.Reason, refused.Matches(c))
		}
	}
}

// shared is a store in memory, which may be away.
type shared struct {
	recent.Store

	mu      sync.Mutex
	away    bool
	calls   int
	changes int
	counts  recent.Counts // of all minutes
	left    string        // the replica that has ended
}

func (s *shared) Publish(_ context.Context, b *recent.Batch, _ int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errors.New("away")
	}
	s.calls, s.changes = s.calls+len(b.Calls), s.changes+len(b.Changes)
	for _, of := range b.Minutes {
		for _, c := range of {
			s.counts.Add(c)
		}
	}
	return nil
}

func (s *shared) Leave(_ context.Context, replica string) error {
	s.left = replica
	return nil
}

func (s *shared) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// TestAnOutage: what happens while the store is away is published once it is back, each part once.
func TestAnOutage(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		s := &shared{}
		l := recent.New(recent.Config{Keep: 10, Replica: "a", Store: s})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); l.Run(ctx) }()
		for _, away := range []bool{false, true, true, false} {
			s.setAway(away)
			l.Record(record("acme", "x", 0))
			l.RecordChange(&recent.Change{Actor: "ann", What: "rule.set"})
			<-time.After(time.Minute) // of the bubble's clock
		}
		stop()
		<-ended
		if s.left != "a" {
			t.Errorf("%q has left", s.left)
		}
		if s.calls != 4 || s.changes != 4 || s.counts != (recent.Counts{Calls: 4}) {
			t.Errorf("%d calls, %d changes, and the counts %+v; want 4 of each", s.calls, s.changes, s.counts)
		}
	})
}

// TestNothingIsCountedWhenOff: with nothing to keep, nothing is counted.
func TestNothingIsCountedWhenOff(t *testing.T) {
	t.Parallel()
	l := recent.New(recent.Config{Replica: "a"})
	l.Record(record("acme", "x", 0))
	if calls, _ := l.Calls(t.Context()); len(calls) != 0 || l.On() {
		t.Errorf("%v; on %t", calls, l.On())
	}
}

// TestRecordAllocatesNothing: a call is a copy, also where it displaces another.
func TestRecordAllocatesNothing(t *testing.T) {
	l := recent.New(recent.Config{Keep: 64, Replica: "a"})
	ok, failed := record("acme", "x", 0), record("other", "y", 14)
	for range 200 {
		l.Record(ok)
		l.Record(failed)
	}
	if n := testing.AllocsPerRun(1000, func() {
		l.Record(ok)
		l.Record(failed)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, tenants := range []int{1, 10, 1000} {
		b.Run(fmt.Sprint(tenants), func(b *testing.B) {
			l := recent.New(recent.Config{Keep: 500, Replica: "a"})
			all := make([]*telemetry.Record, tenants)
			for i := range all {
				all[i] = record(fmt.Sprint("tenant", i), "get_current_weather", 0)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l.Record(all[i%tenants])
			}
		})
	}
}

// BenchmarkRecordInParallel records calls of one tenant from all processors, each at a shard of its own.
func BenchmarkRecordInParallel(b *testing.B) {
	l, shards := recent.New(recent.Config{Keep: 500, Replica: "a"}), atomic.Uint32{}
	b.RunParallel(func(pb *testing.PB) {
		rec := record("acme", "get_current_weather", 0)
		rec.Shard = shards.Add(1)
		for pb.Next() {
			l.Record(rec)
		}
	})
}

// TestACallHasEveryText: each text of a call is kept up to its bound, and is stored under its name.
func TestACallHasEveryText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200)
	l := recent.New(recent.Config{Keep: 1, Replica: "a"})
	l.Record(&telemetry.Record{
		Call: &call.Call{Tenant: long, User: long, Agent: long, Key: long, Capability: long, Tool: long, Path: long,
			Method: call.DownloadOutputArtifact, Dialect: call.Legacy},
		Client: long, Listener: long, Backend: long, Attempts: 2, Code: 9, Outcome: telemetry.CutOff, Reason: long,
		Failure: long, Shadowed: long, Shed: overload.Bodies, RequestID: long, BytesIn: 1, BytesOut: 2,
		Trace: telemetry.TraceID{1}, Traced: true, Replayed: true,
		Started: time.Unix(1_900_000_000, 0), Ended: time.Second,
		Decision: telemetry.Decision{Made: true, Level: call.ByUserAgent, Verdict: call.Allow, Differs: true,
			Candidate: call.Allow, Approval: long},
	})
	calls, _ := l.Calls(t.Context())
	text, err := json.Marshal(&calls[0])
	check.Must(t, err)
	var got map[string]any
	check.Must(t, json.Unmarshal(text, &got))
	x := strings.Repeat("x", 128)
	for name, want := range map[string]any{"i": got["i"], "t": "2030-03-17T17:46:41Z", "r": "a", "q": x, "l": x,
		"o": x, "u": x, "a": x, "k": x, "c": x, "n": x, "m": "DownloadOutputArtifact", "d": "legacy",
		"x": "FAILED_PRECONDITION", "w": x, "f": x, "y": "incomplete", "e": 1e9, "b": x, "h": 2.0, "bi": 1.0, "bo": 2.0,
		"tr": "01000000000000000000000000000000", "ts": true, "v": "allow", "vl": "user+agent", "vc": "allow", "p": x,
		"s": x, "z": true} {
		if got[name] != want {
			t.Errorf("%s: %v; want %v", name, got[name], want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("unknown: %v", got)
	}
}
