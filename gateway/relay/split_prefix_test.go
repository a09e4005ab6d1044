package relay_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// TestSplitPrefix: frames of a response may split the prefix of a message anywhere. The client receives no byte of a
// message over the limit, and every other message whole. A response may end within a prefix.
func TestSplitPrefix(t *testing.T) {
	t.Parallel()
	fits := slices.Concat(rawhttp2.Message([]byte("first")), rawhttp2.Message(nil))
	long := rawhttp2.Message([]byte("second"))
	twice, cutOff := slices.Concat(fits, long, long), slices.Concat(fits[:10], []byte{0, 0})
	for name, test := range map[string]struct {
		sent, want []byte
		status     string
		let        bool
	}{
		"a message too many":  {slices.Concat(fits, long), fits, "8", false},
		"in shadow mode":      {twice, twice, "0", true},
		"as many as it may":   {fits, fits, "0", false},
		"an end in a prefix":  {cutOff, cutOff, "0", false},
		"an end in a message": {fits[:8], fits[:8], "0", false},
	} {
		for _, cut := range []int{1, 2, 3, 4, 6, 7, 9, 11, 12, 13, 14, 16, 17, 18, 19} {
			for _, whole := range []bool{false, true} { // the other frames are whole
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					w := newRelayed(t, relay.Config{})
					set(w.h, &w.h.let, test.let)
					w.h.onHeaders(func(s *relay.Stream) {
						s.Limit(relay.Limits{Messages: 2})
						s.Forward(w.h.target())
					})
					b := beginCall(t, w)
					for part := range slices.Chunk(test.sent, cut) {
						if whole {
							part = test.sent[:min(cut, len(test.sent))]
						}
						check.Must(t, b.back.Write(rawhttp2.Data(b.id, false, part)))
						check.Must(t, b.back.Sync()) // the relay reads this frame by itself
						if whole {
							check.Must(t, b.back.Write(rawhttp2.Data(b.id, false, test.sent[len(part):])))
							break
						}
					}
					check.Must(t, b.back.Write(rawhttp2.Headers(b.id, true, b.back.Block("grpc-status", "0"))))
					r, err := b.WaitResponse(1)
					check.Must(t, err)
					if r.Status() != test.status || !bytes.Equal(r.Body, test.want) {
						t.Errorf("cut at %d: status %s, %x, want %s, %x", cut, r.Status(), r.Body, test.status,
							test.want)
					}
					if n := w.h.results(t, 1)[0].BytesOut; n != int64(len(test.want)) {
						t.Errorf("cut at %d: %d bytes are counted, want %d", cut, n, len(test.want))
					}
				})
			}
		}
	}
}
