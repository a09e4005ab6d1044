package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestNoAnswerStartsAsACallEnds: a request of the server that arrives while its call waits for the answers in progress,
// or afterwards, starts no answer. Each of these must end before the call does.
func TestNoAnswerStartsAsACallEnds(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		ex, end := begin(t.Context(), callTool, nil)
		method, asked := "roots/list", new(atomic.Int32)
		var settled atomic.Bool
		ex.asks = &asker{kinds: questions.Roots, of: &questions.Call{
			Ask: func(ctx context.Context, _ *questions.Question) (json.RawMessage, error) {
				if asked.Add(1) > 1 {
					return nil, errors.New("one too many")
				}
				<-ctx.Done()
				synctest.Wait() // until the end of the call waits
				if settled.Load() {
					t.Error("the call ended before an answer")
				}
				arrive := &message{ID: json.RawMessage("2"), Method: &method}
				if new(transport).asked(ex, arrive) {
					t.Error("a request that arrives as its call ends starts an answer")
				}
				return nil, ctx.Err()
			}}}
		if !new(transport).asked(ex, &message{ID: json.RawMessage("1"), Method: &method}) {
			t.Fatal("a request of the server is refused")
		}
		synctest.Wait()
		end()
		ex.settle()
		settled.Store(true)
		if new(transport).asked(ex, &message{ID: json.RawMessage("3"), Method: &method}) {
			t.Error("a request that arrives after its call starts an answer")
		}
		synctest.Wait()
		if asked.Load() != 1 || ex.asks.open != 0 {
			t.Errorf("the client was asked %d questions, of which %d are open", asked.Load(), ex.asks.open)
		}
	})
}

// newInput returns a result with questions.
func newInput(n int) *input {
	in := &input{State: "s", all: map[string]*questions.Question{}}
	for i := range n {
		in.all[fmt.Sprint(i)] = &questions.Question{Kind: questions.Roots}
	}
	return in
}

// TestFewQuestionsOfAResult: the client of a call has at most four open questions of a result, and 64 of all results of
// the call. If one fails, no other is sent.
func TestFewQuestionsOfAResult(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		var open, sent atomic.Int32
		answer := make(chan error)
		a := &asker{kinds: questions.Roots, of: &questions.Call{
			Ask: func(ctx context.Context, _ *questions.Question) (json.RawMessage, error) {
				open.Add(1)
				sent.Add(1)
				defer open.Add(-1)
				select {
				case err := <-answer:
					return json.RawMessage(`{"roots":[]}`), err
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}}}
		type end struct {
			answers *questions.Answers
			err     error
		}
		collect := func(ctx context.Context) <-chan end {
			ended := make(chan end, 1)
			go func() {
				answers, err := a.collect(ctx, newInput(questions.MaxMany))
				ended <- end{answers, err}
			}()
			return ended
		}
		for range maxAsked / questions.MaxMany {
			ended := collect(t.Context())
			for left := int32(questions.MaxMany); left > 0; left-- {
				synctest.Wait()
				if open.Load() != min(left, maxOpen) {
					t.Fatalf("%d questions are open, and %d have no answer", open.Load(), left)
				}
				answer <- nil
			}
			var all map[string]json.RawMessage
			if e := <-ended; e.err != nil || e.answers.State != "s" ||
				json.Unmarshal(e.answers.Responses, &all) != nil || len(all) != questions.MaxMany {
				t.Fatalf("%+v, %v", e.answers, e.err)
			}
		}
		if e := <-collect(t.Context()); e.err == nil || sent.Load() != maxAsked {
			t.Errorf("%d questions of one call were sent: %v", sent.Load(), e.err)
		}
		a.asked = 0
		ended, declined := collect(t.Context()), &questions.Refused{Code: -1, Message: "declined"}
		synctest.Wait()
		answer <- declined
		if e := <-ended; !errors.Is(e.err, declined) || sent.Load() != maxAsked+maxOpen {
			t.Errorf("after a failure, %d more questions were sent: %v", sent.Load()-maxAsked, e.err)
		}
		a.asked = 0
		ctx, cancel := context.WithCancel(t.Context())
		ended = collect(ctx)
		synctest.Wait()
		cancel()
		if e := <-ended; !errors.Is(e.err, context.Canceled) || open.Load() != 0 {
			t.Errorf("at the end of the call, %d questions are open: %v", open.Load(), e.err)
		}
	})
}

// TestRequestsForInputAreNoResults: a request for input that the client provides with a repeated call is a failure of
// the tool, with the questions beside. Of one that is sent on a stream, no second copy is made.
func TestRequestsForInputAreNoResults(t *testing.T) {
	t.Parallel()
	once := func(*questions.Answers) (*toolResult, error) {
		return &toolResult{failure: needsInput, input: &input{State: "s",
			raw: json.RawMessage(`{"r":{"method":"roots/list"}}`)}}, nil
	}
	a := &asker{kinds: questions.Roots, of: new(questions.Call)}
	got, err := a.rounds(t.Context(), once)
	check.Must(t, err)
	if want := `{"input":{"requests":{"r":{"method":"roots/list","params":{}}},"state":"s","kinds":{"r":8}}}`; got.
		failure != needsInput || got.json != nil || string(got.rest) != want {
		t.Errorf("the result is %s with the error %q and %s", got.json, got.failure, got.rest)
	}
	a.of.Ask = func(context.Context, *questions.Question) (json.RawMessage, error) { return nil, nil }
	of, _ := once(nil)
	if err := of.input.read(a); err != nil || of.input.Requests != nil || len(of.input.all) != 1 {
		t.Errorf("%v, %s, %d questions", err, of.input.Requests, len(of.input.all))
	}
}
