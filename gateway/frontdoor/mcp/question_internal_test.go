package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestOpenQuestionsAreWithdrawn: the end of a call, or of a question, withdraws each question that has no answer, once.
// An answered one is not withdrawn.
func TestOpenQuestionsAreWithdrawn(t *testing.T) {
	t.Parallel()
	h := New(Config{Keys: func(context.Context) [][]byte { return [][]byte{make([]byte, aead.KeyBytes)} },
		Caller: func(*http.Request) string { return "caller" }})
	check.Bubble(t, func(t *testing.T) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, nil)
		out := httptest.NewRecorder()
		c := &conversation{h: h, over: make(chan struct{}), i: &invocation{seals: h.sealsFor(r.Context(), r),
			exchange: &exchange{r: r, read: &message{version: modeVersion}, events: eventsTo(out)}}}
		read := func() (asked, withdrawn []string) {
			lines := bufio.NewScanner(bytes.NewReader(out.Body.Bytes()))
			for lines.Scan() {
				var of struct {
					ID     string
					Params struct{ RequestID string }
				}
				text, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
				switch {
				case !ok || json.Unmarshal(text, &of) != nil:
				case of.ID != "":
					asked = append(asked, of.ID)
				default:
					withdrawn = append(withdrawn, of.Params.RequestID)
				}
			}
			return asked, withdrawn
		}
		ask := func(ctx context.Context) <-chan error {
			ended := make(chan error, 1)
			go func() {
				_, err := c.ask(ctx, &questions.Question{Kind: questions.Roots, Method: "roots/list",
					Params: json.RawMessage("{}")})
				ended <- err
			}()
			synctest.Wait()
			return ended
		}
		answered := ask(t.Context())
		for _, id := range slices.Collect(maps.Keys(h.waiting.all)) {
			_, err := h.waiting.answer(id, serverAnswer{Result: json.RawMessage(`{"roots":[]}`)})
			check.Must(t, err)
		}
		check.Must(t, <-answered)
		ctx, cancel := context.WithCancel(t.Context())
		first := ask(ctx)
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled question: %v", err)
		}
		second := ask(t.Context())
		c.end()
		if err := <-second; !errors.Is(err, errOver) {
			t.Errorf("a question of an ended call: %v", err)
		}
		if err := <-ask(t.Context()); err == nil {
			t.Error("a question after its call has an answer")
		}
		asked, withdrawn := read()
		if len(asked) != 3 || len(withdrawn) != 2 || withdrawn[0] != asked[1] || withdrawn[1] != asked[2] {
			t.Errorf("%d questions were sent, and %d withdrawn", len(asked), len(withdrawn))
		}
	})
}

// TestLongInputHasNoPage: an approval whose state could not contain the input of the call is awaited without a page.
func TestLongInputHasNoPage(t *testing.T) {
	t.Parallel()
	h := New(Config{})
	for bytes, shown := range map[int]bool{maxInput: true, maxInput + 1: false} {
		var a asking
		i := &invocation{urls: true, stateless: true}
		i.answers.Responses = make(json.RawMessage, bytes)
		h.ask(t.Context(), i, &a, pending{id: "a", link: "https://gate.example/a"}, false)
		if (a.instead != nil) != shown {
			t.Errorf("with input of %d bytes, the client sees a page: %t", bytes, a.instead != nil)
		}
	}
}
