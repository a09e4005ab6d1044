package idempotency_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/testkit/check"
)

// running makes a call whose run lasts until end, which waits for the call's end and returns its answer.
func running(t *testing.T, k *idempotency.Service,
	r *idempotency.Request) (end func(string, idempotency.Outcome) string) {
	t.Helper()
	type outcome struct {
		answer string
		how    idempotency.Outcome
	}
	ends, answers := make(chan outcome), make(chan string)
	go func() {
		answer, _, refusal := k.Do(t.Context(), r, func(context.Context) ([]byte, idempotency.Outcome) {
			o := <-ends
			return []byte(o.answer), o.how
		})
		if refusal != nil {
			t.Errorf("the call that runs: %v", refusal)
		}
		answers <- string(answer)
	}()
	synctest.Wait()
	return func(answer string, how idempotency.Outcome) string {
		ends <- outcome{answer, how}
		return <-answers
	}
}

// waiting makes a call beside the test, and returns its answer as expect has it.
func waiting(ctx context.Context, k *idempotency.Service, r *idempotency.Request, run idempotency.Run) <-chan string {
	answers := make(chan string, 1)
	go func() {
		answer, repeat, refusal := k.Do(ctx, r, run)
		switch {
		case refusal != nil:
			answers <- refusal.Reason
		case repeat:
			answers <- "again: " + string(answer)
		default:
			answers <- string(answer)
		}
	}()
	return answers
}

// TestTheAnswerToAClaimIsLost: the call is not made, and its key is free when the store is back.
func TestTheAnswerToAClaimIsLost(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m := newMemory()
		m.lost = true
		k := service(t, m, idempotency.Options{})
		expect(t, k, "without an answer", request("{}"), never(t), "IDEMPOTENCY_UNAVAILABLE")
		expect(t, service(t, m, idempotency.Options{}), "a repeat", request("{}"), says("a", idempotency.Executed), "a")
	})
}

// TestALongCall keeps its claim: a repeat elsewhere waits for its end.
func TestALongCall(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m := newMemory()
		end := running(t, service(t, m, idempotency.Options{}), request("{}"))
		repeat := waiting(t.Context(), service(t, m, idempotency.Options{}), request("{}"), never(t))
		<-time.After(time.Hour)
		if got := end("a", idempotency.Executed); got != "a" {
			t.Errorf("the call got %q", got)
		}
		if got := <-repeat; got != "again: a" {
			t.Errorf("the repeat got %q", got)
		}
	})
}

// TestACallPanics: its claim ends with the lease, and its outcome is unknown.
func TestACallPanics(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m := newMemory()
		m.renewed = func() {
			t.Error("the claim of a call that is over was renewed")
			runtime.Goexit()
		}
		k := service(t, m, idempotency.Options{})
		expect(t, k, "the first", request("{}"), func(context.Context) ([]byte, idempotency.Outcome) { panic("a bug") },
			"IDEMPOTENCY_OUTCOME_UNKNOWN")
		expect(t, service(t, m, idempotency.Options{}), "a repeat", request("{}"), never(t),
			"IDEMPOTENCY_OUTCOME_UNKNOWN")
		if n := k.Stats().Running; n != 0 {
			t.Errorf("%d calls run", n)
		}
	})
}

// TestTheEndWhileTheStoreIsAway: a replica that stops sends the results of its calls to the store again.
func TestTheEndWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m := newMemory()
		m.deaf = true
		k := service(t, m, idempotency.Options{})
		expect(t, k, "the first", request("{}"), says("a", idempotency.Executed), "a")
		m.set(func(m *memory) { m.deaf = false })
		k.Close()
		expect(t, service(t, m, idempotency.Options{}), "a repeat", request("{}"), never(t), "again: a")
	})
}

// TestStoredResponsesAreBound: a response that is stored under another key, or for another request, is not given out.
func TestStoredResponsesAreBound(t *testing.T) {
	t.Parallel()
	m := newMemory()
	k := service(t, m, idempotency.Options{})
	theirs := request("{}")
	theirs.Tenant = "globex"
	expect(t, k, "a tenant's", request("{}"), says("a", idempotency.Executed), "a")
	expect(t, k, "another tenant's", theirs, says("b", idempotency.Executed), "b")
	m.set(func(m *memory) {
		var ids []string
		for id := range m.all {
			ids = append(ids, id)
		}
		one, other := m.all[ids[0]], m.all[ids[1]]
		one.Sealed, other.Sealed = other.Sealed, one.Sealed
		m.all[ids[0]], m.all[ids[1]] = one, other
	})
	for _, r := range []*idempotency.Request{request("{}"), theirs} {
		expect(t, k, "the response of another tenant", r, never(t), "IDEMPOTENCY_UNAVAILABLE")
	}

	m = newMemory()
	k = service(t, m, idempotency.Options{})
	expect(t, k, "the first", request("{}"), says("a", idempotency.Executed), "a")
	m.set(func(m *memory) {
		for id, f := range m.all {
			f.Fingerprint = fingerprint(t, request("[]"))
			m.all[id] = f
		}
	})
	expect(t, k, "the response to another request", request("[]"), never(t), "IDEMPOTENCY_UNAVAILABLE")
}

// fingerprint returns what a store gets of a request.
func fingerprint(t *testing.T, r *idempotency.Request) (print string) {
	t.Helper()
	m := newMemory()
	expect(t, service(t, m, idempotency.Options{}), "a request", r, says("a", idempotency.Executed), "a")
	for _, f := range m.all {
		print = f.Fingerprint
	}
	return print
}

// TestNoCallWaits: a key of a call at another replica is not queried when the last call that waits has left.
func TestNoCallWaits(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m := newMemory()
		end := running(t, service(t, m, idempotency.Options{}), request("{}"))
		ctx, leave := context.WithCancel(t.Context())
		repeat := waiting(ctx, service(t, m, idempotency.Options{}), request("{}"), never(t))
		<-time.After(10 * time.Second)
		leave()
		if got := <-repeat; got != "CLIENT_GONE" {
			t.Errorf("the repeat that left got %q", got)
		}
		synctest.Wait()
		before := m.queries
		<-time.After(10 * time.Second)
		if before < 2 || m.queries != before {
			t.Errorf("%d queries, and %d more when no call waits", before, m.queries-before)
		}
		end("a", idempotency.Executed)
	})
}

// held returns a replica whose first query of the store waits for release.
func held(t *testing.T, m *memory, o idempotency.Options) (k *idempotency.Service, release func()) {
	t.Helper()
	proceed := make(chan struct{})
	m.set(func(m *memory) { m.begin = func() { <-proceed } })
	return service(t, m, o), func() {
		m.set(func(m *memory) { m.begin = nil })
		close(proceed)
	}
}

// TestACallComesAsTheLastOneLeaves: it waits for the call at the other replica, as if it were the first here.
func TestACallComesAsTheLastOneLeaves(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m := newMemory()
		end := running(t, service(t, m, idempotency.Options{}), request("{}"))
		k, release := held(t, m, idempotency.Options{})
		ctx, leave := context.WithCancel(t.Context())
		first := waiting(ctx, k, request("{}"), never(t))
		synctest.Wait()
		leave()
		if got := <-first; got != "CLIENT_GONE" {
			t.Errorf("the call that left got %q", got)
		}
		second := waiting(t.Context(), k, request("{}"), never(t))
		synctest.Wait()
		release()
		synctest.Wait()
		end("a", idempotency.Executed)
		if got := <-second; got != "again: a" {
			t.Errorf("the call that came got %q", got)
		}
	})
}

// TestAWaitForACallThatDoesNotStart: one of the repeats runs then, at either replica, and the others get its response.
func TestAWaitForACallThatDoesNotStart(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m := newMemory()
		k := service(t, m, idempotency.Options{})
		end := running(t, k, request("{}"))
		here := waiting(t.Context(), k, request("{}"), says("b", idempotency.Executed))
		elsewhere := waiting(t.Context(), service(t, m, idempotency.Options{}), request("{}"), never(t))
		synctest.Wait()
		if got := end("no backend", idempotency.NotStarted); got != "no backend" {
			t.Errorf("the call got %q", got)
		}
		if got, again := <-here, <-elsewhere; got != "b" || again != "again: b" {
			t.Errorf("the repeats got %q here, %q elsewhere", got, again)
		}
	})
}

// TestAKeyInUse: a call that is rejected since its key belongs to another request does not run when the key is free. A
// repeat of the other request that has waited with it does.
func TestAKeyInUse(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m := newMemory()
		end := running(t, service(t, m, idempotency.Options{}), request("{}"))
		k, release := held(t, m, idempotency.Options{})
		other := waiting(t.Context(), k, request("[]"), never(t))
		synctest.Wait()
		repeat := waiting(t.Context(), k, request("{}"), says("b", idempotency.Executed))
		synctest.Wait()
		release()
		if got := <-other; got != "IDEMPOTENCY_KEY_REUSED" {
			t.Errorf("the other request got %q", got)
		}
		end("no backend", idempotency.NotStarted)
		if got := <-repeat; got != "b" {
			t.Errorf("the repeat got %q", got)
		}
	})
}

// TestNewKeysWhileCallsWait: of replicas with other keys to encrypt with, a call that ran after one at another replica,
// or beside one that waited, is repeated as any other.
func TestNewKeysWhileCallsWait(t *testing.T) {
	t.Parallel()
	before, after := [][]byte{key(1), key(2)}, [][]byte{key(2), key(1)}
	for name, test := range map[string]struct {
		between string // the answer of a call between the first one and the one that waits
		want    string
	}{
		"the waiting call runs": {"", "b"}, "another one runs before": {"c", "again: c"},
	} {
		check.Bubble(t, func(t *testing.T) {
			m := newMemory()
			end := running(t, service(t, m, idempotency.Options{Keys: before}), request("{}"))
			k := service(t, m, idempotency.Options{Keys: after})
			waits := waiting(t.Context(), k, request("{}"), says("b", idempotency.Executed))
			synctest.Wait()
			end("no backend", idempotency.NotStarted)
			if test.between != "" {
				expect(t, service(t, m, idempotency.Options{Keys: after}), name, request("{}"),
					says(test.between, idempotency.Executed), test.between)
			}
			got := <-waits
			if got != test.want {
				t.Errorf("%s: it got %q, want %q", name, got, test.want)
			}
			if got == "b" {
				got = "again: b"
			}
			for _, keys := range [][][]byte{before, after} {
				expect(t, service(t, m, idempotency.Options{Keys: keys}), name+", a repeat", request("{}"), never(t),
					got)
			}
		})
	}
}

// TestOnlyAQuery: a call that must not run again waits for the end of the first one, and does not run in its place.
func TestOnlyAQuery(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m := newMemory()
		k := service(t, m, idempotency.Options{})
		end := running(t, k, request("{}"))
		only := request("{}")
		only.Only = &call.Refusal{Reason: "APPROVAL_USED"}
		here := waiting(t.Context(), k, only, never(t))
		elsewhere := waiting(t.Context(), service(t, m, idempotency.Options{}), only, never(t))
		synctest.Wait()
		end("no backend", idempotency.NotStarted)
		if got, there := <-here, <-elsewhere; got != "APPROVAL_USED" || there != "APPROVAL_USED" {
			t.Errorf("they got %q here, %q elsewhere", got, there)
		}
	})
}
