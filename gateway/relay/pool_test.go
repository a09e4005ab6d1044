package relay

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestDialPause: after a failed dial, calls are refused at once for a while. Then the backend is dialed again.
func TestDialPause(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		h, client, _ := greeted(t, Config{})
		dials := 0
		h.up = client.sh.relay.NewUpstream(UpstreamConfig{Dial: func(context.Context) (net.Conn, error) {
			dials++
			return nil, io.EOF
		}})
		for i, step := range []struct {
			after time.Duration // time since the previous call
			dials int
		}{{0, 1}, {0, 1}, {time.Duration(dialPause - 1), 1}, {1, 2}} {
			<-time.After(step.after)
			feedAll(client, frames(nil).headers(uint32(2*i+1), true, fuzzRequest("/x")...))
			synctest.Wait()
			if dials != step.dials || h.done != i+1 {
				t.Errorf("after call %d: dialled %d times, not %d; %d calls are done", i+1, dials, step.dials, h.done)
			}
		}
	})
}

// latecomer parks calls that have a deadline of a millisecond.
type latecomer struct {
	*fuzzHandler
	parked Parked
}

func (h *latecomer) Headers(s *Stream) {
	s.SetDeadline(time.Millisecond)
	h.parked = s.Park()
}

// TestNothingBeginsTooLate: a call whose deadline has passed is not forwarded, even if its timer has not fired yet.
func TestNothingBeginsTooLate(t *testing.T) {
	t.Parallel()
	for name, forward := range map[string]func(*latecomer, *Stream){
		"a backend": func(h *latecomer, s *Stream) { s.Forward(h.up) },
		"one in the process": func(_ *latecomer, s *Stream) {
			s.Serve(func(*ServerStream) Status { panic("it has begun") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				fh, client, back := greeted(t, Config{Panicked: func(_ string, v any) { t.Error(v) }})
				h := &latecomer{fuzzHandler: fh}
				client.sh.relay.handler = h
				feedAll(client, frames(nil).headers(1, true, fuzzRequest("/x")...))
				<-time.After(2 * time.Millisecond)
				h.parked.Resume(func(s *Stream) { forward(h, s) })
				if back.lastID != 0 || h.failure != DeadlineExceeded {
					t.Errorf("the last stream at the backend is %d; the failure %v", back.lastID, h.failure)
				}
				synctest.Wait()
			})
		})
	}
}
