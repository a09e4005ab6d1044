package relay

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// hello returns the first frames of a peer, without the preface.
func hello() frames { return frames(nil).add(frameSettings, 0, 0, nil) }

// greeted returns a client's connection and a backend's, both after their handshake.
func greeted(t testing.TB, cfg Config) (h *fuzzHandler, client, back *conn) {
	h, client, back = fuzzRelay(t, cfg)
	feedAll(client, append([]byte(preface), hello()...))
	feedAll(back, hello())
	return h, client, back
}

// told returns the code of the last GOAWAY, and whether the connection is ending.
func told(c *conn) (code errCode, ends bool) {
	c.sh.enter()
	defer c.sh.leave()
	for p := c.link.(*fakeLink).out; len(p) > 0; p = p[frameHeaderLen+parseFrameHeader(p).length:] {
		if p[3] == frameGoAway {
			code = errCode(be32(p[frameHeaderLen+4:]))
		}
	}
	return code, c.ending
}

// TestQuietTimeCountsOnce: the time for which a connection was quiet is subtracted once from the control frames that
// follow.
func TestQuietTimeCountsOnce(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		_, client, _ := greeted(t, Config{})
		const quiet = 50 // seconds
		<-time.After(quiet * time.Second)
		thousand := bytes.Repeat(frames(nil).add(framePing, 0, 0, make([]byte, 8)), 1000)
		n, ends := 0, false
		for ; n < 100 && !ends; n++ {
			feedAll(client, thousand)
			_, ends = told(client)
		}
		if want := (maxControl + quiet*controlPerSecond) / 1000; n != want {
			t.Errorf("the connection ends in thousand %d of PINGs, not %d", n, want)
		}
	})
}

// TestFramesCountForTheirWork: a frame counts for the work that it makes.
func TestFramesCountForTheirWork(t *testing.T) {
	t.Parallel()
	const settings = 2000
	for name, test := range map[string]struct {
		say  func(id uint32) frames
		most int // times that say's frames are allowed
	}{
		"requests whose headers are too long": {func(id uint32) frames {
			return frames(nil).headers(id, true, append(fuzzRequest("/x"), "x-long", strings.Repeat("x", 1000))...)
		}, resetWindow / 2},
		"windows that move many times": {func(uint32) frames {
			return frames(nil).add(frameSettings, 0, 0, bytes.Repeat(appendSetting(nil, settingInitialWindow, 1),
				settings))
		}, maxControl / (settings + 1)},
	} {
		_, client, _ := greeted(t, Config{HTTP2: HTTP2{MaxHeaderList: 1000}})
		for i := range uint32(test.most) {
			feedAll(client, test.say(2*i+1))
		}
		if _, ends := told(client); ends {
			t.Errorf("%s: the connection ends before the %d. time", name, test.most+1)
		}
		feedAll(client, test.say(uint32(2*test.most+1)))
		if code, ends := told(client); !ends || code != errEnhanceYourCalm {
			t.Errorf("%s: the connection ends: %t, with %d", name, ends, code)
		}
	}
}

// TestWhatAClientMayGiveUp: a client that cancels many calls soon after it made them is treated as an attacker. A
// client that has waited for a while, or has received part of a response, is not.
func TestWhatAClientMayGiveUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		begins bool // the response begins before the call is canceled
		after  time.Duration
		ends   bool // the connection ends
	}{
		"at once":                   {ends: true},
		"soon":                      {after: time.Duration(premature - 1), ends: true},
		"after a while":             {after: time.Duration(premature)},
		"a response that has begun": {begins: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				_, client, back := greeted(t, Config{})
				const calls = resetWindow/2 + 1
				for i := range uint32(calls) {
					feedAll(client, frames(nil).headers(2*i+1, true, fuzzRequest("/x")...))
					if test.begins {
						feedAll(back, frames(nil).headers(2*i+1, false, ":status", "200", "content-type",
							"application/grpc"))
					}
				}
				<-time.After(test.after)
				for i := range uint32(calls) {
					feedAll(client, frames(nil).add(frameRSTStream, 0, 2*i+1, appendUint32(nil, uint32(errCancel))))
				}
				if code, ends := told(client); ends != test.ends || ends && code != errEnhanceYourCalm {
					t.Errorf("the connection ends: %t, with %d", ends, code)
				}
			})
		})
	}
}

// TestTrickledBlock: a header block must be complete in time, however many frames it has.
func TestTrickledBlock(t *testing.T) {
	t.Parallel()
	more := frames(nil).add(frameContinuation, 0, 1, []byte{0x82})
	for name, piece := range map[string][]byte{"by frames": more, "by bytes": slices.Clip(more[:5])} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				const limit = 10 * time.Second
				_, client, _ := greeted(t, Config{Timeouts: Timeouts{Setup: limit}})
				feedAll(client, frames(nil).add(frameHeaders, 0, 1, []byte{0x82}))
				<-time.After(limit * 6 / 10)
				feedAll(client, piece)
				<-time.After(limit * 6 / 10)
				synctest.Wait()
				client.sh.enter()
				defer client.sh.leave()
				if !client.closed {
					t.Error("the connection goes on")
				}
			})
		})
	}
}
