package mcp

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/stream"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestHeartbeatsAgain: the heartbeats of a response serve another one, unless a comment was due when they stopped: it
// could begin the other response.
func TestHeartbeatsAgain(t *testing.T) {
	t.Parallel()
	due := make(chan struct{})
	b := &heartbeat{timer: time.AfterFunc(0, func() { close(due) })}
	check.Received(t, due, "the due comment")
	if b.stop(); b.again() == b {
		t.Error("heartbeats with a due comment are used again")
	}
	check.Bubble(t, func(t *testing.T) {
		const every = time.Second
		var first *heartbeat
		beats := new(heartbeat)
		for i := range 3 {
			w := httptest.NewRecorder()
			b := beats.start(eventsTo(w), every, func() { t.Error("the client has left") })
			if first == nil {
				first = b
			}
			<-time.After(every*time.Duration(i) + every/2)
			b.stop()
			b.stop()
			beats = b.again()
			if text := w.Body.String(); text != strings.Repeat(stream.Beat, i) {
				t.Errorf("response %d: %q", i, text)
			}
			if beats != first {
				t.Errorf("response %d: the heartbeats are not used again", i)
			}
		}
	})
}
