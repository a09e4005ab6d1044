package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestForwardedAnswersAreLimited: a tenant that sends many or long answers to questions of other replicas is refused
// until its bucket has room, and other tenants are not.
func TestForwardedAnswersAreLimited(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ bytes, burst int }{
		"long":  {(256-forwardCost)<<10 - len(`{"x":""}`), 16},
		"short": {1, 1024},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forwarded := 0
			h := New(Config{Cancel: func(context.Context, string) error { forwarded++; return nil },
				Keys:   func(context.Context) [][]byte { return [][]byte{make([]byte, aead.KeyBytes)} },
				Caller: func(*http.Request) string { return "caller" },
				Owner:  func(r *http.Request) string { return r.Header.Get("X-Owner") }})
			check.Bubble(t, func(t *testing.T) {
				result := fmt.Appendf(nil, `{"x":"%s"}`, bytes.Repeat([]byte{'1'}, c.bytes))
				answer := func(owner string) (*http.Request, error) {
					r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, nil)
					r.Header.Set("X-Owner", owner)
					return r, h.answerServer(r, question{Server: "question"}, &message{result: result})
				}
				for n := range c.burst {
					if _, err := answer("acme"); err != nil {
						t.Fatalf("answer %d is refused: %v", n+1, err)
					}
				}
				r, err := answer("acme")
				p := problemOf(r, err)
				if p.Status != http.StatusTooManyRequests || p.Reason != "MCP_ANSWERS_LIMITED" || p.RetryAfter <= 0 {
					t.Errorf("one more has %+v", p)
				}
				if _, err := answer("globex"); err != nil {
					t.Errorf("another tenant: %v", err)
				}
				<-time.After(time.Second)
				if _, err := answer("acme"); err != nil {
					t.Errorf("after a second: %v", err)
				}
				if forwarded != c.burst+2 {
					t.Errorf("%d answers were forwarded, want %d", forwarded, c.burst+2)
				}
			})
		})
	}
}

// TestForwardedCancellationsAreLimited: every replica receives a cancellation, so that the limit of answers is theirs
// too. An answer that is too long to be forwarded counts for nothing.
func TestForwardedCancellationsAreLimited(t *testing.T) {
	t.Parallel()
	forwarded := 0
	h := New(Config{Cancel: func(context.Context, string) error { forwarded++; return nil },
		Owner: func(r *http.Request) string { return r.Header.Get("X-Owner") }})
	check.Bubble(t, func(t *testing.T) {
		by := func(owner string) *http.Request {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, nil)
			r.Header.Set("X-Owner", owner)
			return r
		}
		long := &message{result: bytes.Repeat([]byte{' '}, maxForwarded+1)}
		copy(long.result, `{"x":1}`)
		for range 100 {
			if err := h.answerServer(by("acme"), question{Server: "question"}, long); err == nil {
				t.Fatal("a long answer is forwarded")
			}
		}
		const burst = forwardBurst / forwardCost
		for range burst + 10 {
			h.cancel(by("acme"), requestKey{"session", "1"})
		}
		if forwarded != burst {
			t.Errorf("%d cancellations were forwarded, want %d", forwarded, burst)
		}
		h.cancel(by("globex"), requestKey{"session", "1"})
		if forwarded != burst+1 {
			t.Error("that of another tenant was not forwarded")
		}
	})
}

// TestAnswersAreCheckedWithoutTheLock: calls of others continue while an answer is decoded. A question that has its
// answer meanwhile gets no other one.
func TestAnswersAreCheckedWithoutTheLock(t *testing.T) {
	t.Parallel()
	var w waiting
	id, answers, leave := w.add(&questions.Question{Kind: questions.Roots}, seals{})
	defer leave()
	of := w.all[id]
	valid, first := of.check, serverAnswer{Result: json.RawMessage(`{"roots":[]}`)}
	of.check = func(result json.RawMessage) error {
		if !w.mu.TryLock() {
			t.Error("an answer is decoded under the lock of all calls")
			return valid(result)
		}
		other := w.all[id]
		other.check = valid
		w.all[id] = other
		w.mu.Unlock()
		if found, err := w.answer(id, first); !found || err != nil {
			t.Errorf("the first answer: %t, %v", found, err)
		}
		return valid(result)
	}
	w.all[id] = of
	if found, err := w.answer(id, serverAnswer{Result: json.RawMessage(`{"roots":[1]}`)}); found || err != nil {
		t.Errorf("the second answer: %t, %v", found, err)
	}
	if got := <-answers; string(got.Result) != string(first.Result) {
		t.Errorf("the question has the answer %s", got.Result)
	}
}

// TestLateAnswers: without other replicas, the answer to a question that does not wait any longer has no effect, and is
// no error: the client may have sent it before it heard of the end. What is no answer is an error, and the question
// stays open.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	h := New(Config{})
	id, answers, leave := h.waiting.add(&questions.Question{Kind: questions.Forms}, seals{})
	defer leave()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, nil)
	answer := func(id, result string) error {
		return h.answerServer(r, question{Server: id}, &message{result: []byte(result)})
	}
	if err := answer(id, `{"action":"approve"}`); problemOf(r, err).Status != http.StatusBadRequest {
		t.Errorf("what is no answer: %v", err)
	}
	for _, of := range []string{id, id, "another"} {
		if err := answer(of, `{"action":"accept"}`); err != nil {
			t.Errorf("%s: %v", of, err)
		}
	}
	if got := <-answers; string(got.Result) != `{"action":"accept"}` {
		t.Errorf("the question has the answer %s", got.Result)
	}
}

// TestForwardedAnswers: a valid answer reaches the question at another replica, also if HTML would need escapes for all
// of it. An invalid one is an error, and is not forwarded. If the others cannot be reached, the client may try again.
func TestForwardedAnswers(t *testing.T) {
	t.Parallel()
	cfg := Config{Keys: func(context.Context) [][]byte { return [][]byte{make([]byte, aead.KeyBytes)} },
		Caller: func(*http.Request) string { return "caller" }, Owner: func(*http.Request) string { return "acme" }}
	home, away, sent := New(cfg), cfg, 0
	broken := false
	away.Cancel = func(_ context.Context, request string) error {
		if broken {
			return errors.New("connection refused")
		}
		sent++
		home.Cancelled(request)
		return nil
	}
	h := New(away)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, nil)
	id, answers, leave := home.waiting.add(&questions.Question{Kind: questions.Forms}, home.sealsFor(r.Context(), r))
	defer leave()
	answer := func(result string) int {
		err := h.answerServer(r, question{Server: id, Kind: questions.Forms}, &message{result: []byte(result)})
		if err == nil {
			return 0
		}
		return problemOf(r, err).Status
	}
	if got := answer(`{"action":"approve"}`); got != http.StatusBadRequest || sent != 0 {
		t.Errorf("an invalid answer has the status %d, and was sent %d times", got, sent)
	}
	long := `{"action":"accept","content":{"x":"` + strings.Repeat("<", 200<<10) + `"}}`
	broken = true
	if got := answer(long); got != http.StatusServiceUnavailable {
		t.Errorf("without a connection, the status is %d", got)
	}
	broken = false
	foreign := away
	foreign.Caller = func(*http.Request) string { return "another" }
	err := New(foreign).answerServer(r, question{Server: id, Kind: questions.Forms},
		&message{result: []byte(`{"action":"accept"}`)})
	if sent--; err != nil || sent != 0 || len(answers) != 0 {
		t.Errorf("the answer of another caller was taken: %v, %d", err, len(answers))
	}
	if got := answer(long); got != 0 || sent != 1 {
		t.Errorf("a valid answer has the status %d, and was sent %d times", got, sent)
	}
	select {
	case got := <-answers:
		if string(got.Result) != long {
			t.Errorf("the question has the answer %.80s", got.Result)
		}
	default:
		t.Error("the question has no answer")
	}
	if got := answer(`{"action":"accept","content":{"x":"` + strings.Repeat("x", maxForwarded) + `"}}`); got !=
		http.StatusBadRequest || sent != 1 {
		t.Errorf("an answer that is too long has the status %d, and was sent %d times", got, sent)
	}
}

// budget is the memory of a request.
type budget struct{ left, held int64 }

var errFull = errors.New("no memory")

func (b *budget) Reserve(n int64) bool {
	if b.left < n {
		return false
	}
	b.left, b.held = b.left-n, b.held+n
	return true
}

func (b *budget) Release(n int64) { b.left, b.held = b.left+n, b.held-n }
func (*budget) Exceeded() error   { return errFull }

// TestInputIsCharged: the copies of a server's request for input, and of the client's answers, have an owner before
// they are made.
func TestInputIsCharged(t *testing.T) {
	t.Parallel()
	h := New(Config{Keys: func(context.Context) [][]byte { return [][]byte{make([]byte, aead.KeyBytes)} },
		Caller: func(*http.Request) string { return "caller" }})
	long := bytes.Repeat([]byte{'a'}, request.SmallResult)
	requests := []byte(`{"n":{"method":"roots/list","params":{"x":"` + string(long) + `"}}}`)
	rest := append(append([]byte(inputPrefix+`{"kinds":{"n":8},"state":"s","requests":`), requests...), "}}"...)
	inputs := []byte(`{"n":{"roots":["` + string(long) + `"]}}`)
	for _, enough := range []bool{true, false} {
		of := &budget{left: 1 << 20}
		if !enough {
			of.left = request.SmallResult
		}
		r := request.With(httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, nil),
			request.ResultsKey(), request.Results(of))
		i := &invocation{exchange: &exchange{r: r, read: &message{inputs: inputs}}, stateless: true,
			kinds: questions.Roots, rest: rest, results: Results{Relayed: true}, seals: h.sealsFor(r.Context(), r),
			req: new(docpb.InvokeRequest)}
		result, err := h.resultOf(i, new(docpb.InvokeResponse))
		if !enough {
			if !errors.Is(err, errFull) || result != nil {
				t.Errorf("without memory for the request: %v, %v", result, err)
			}
		} else {
			check.Must(t, err)
			var s state
			in, ok := result.(*inputRequired)
			if !ok || !i.seals.open(sealedState, in.State, &s) || s.Asked["n"] != questions.Roots ||
				string(s.Server) != "s" {
				t.Errorf("the result is %+v", result)
			}
			if text, _ := json.Marshal(in.Requests); !bytes.Equal(text, requests) {
				t.Errorf("the requests are %.80s", text)
			}
			if of.held < int64(inputCopies*len(rest)) {
				t.Errorf("%d bytes are charged for %d", of.held, len(rest))
			}
		}
		before := of.held
		err = i.readInput(questions.Asked{"n": questions.Roots}.CheckAnswers)
		switch {
		case !enough && (!errors.Is(err, errFull) || i.answers.Responses != nil):
			t.Errorf("without memory for the answers: %s, %v", i.answers.Responses, err)
		case enough && (err != nil || !bytes.Equal(i.answers.Responses, inputs)):
			t.Errorf("the answers are %.80s, %v", i.answers.Responses, err)
		case enough && of.held-before < int64(inputCopies*len(inputs)):
			t.Errorf("%d bytes are charged for answers of %d", of.held-before, len(inputs))
		}
	}
}

// TestStatesOfServersAreShort: a state that the gateway could not open again does not reach the client.
func TestStatesOfServersAreShort(t *testing.T) {
	t.Parallel()
	h := New(Config{Keys: func(context.Context) [][]byte { return [][]byte{make([]byte, aead.KeyBytes)} },
		Caller: func(*http.Request) string { return "caller" }})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, nil)
	for bytes, fits := range map[int]bool{questions.MaxState: true, maxLong: false} {
		i := &invocation{exchange: &exchange{r: r}, stateless: true, seals: h.sealsFor(r.Context(), r),
			req: new(docpb.InvokeRequest), rest: []byte(`{"input":{"state":"` + strings.Repeat("<", bytes) + `"}}`)}
		if result, err := i.input(); (err == nil) != fits || (result != nil) != fits {
			t.Errorf("a state of %d bytes: %v", bytes, err)
		}
	}
}
