package relay_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// The memory that the relay holds at most for a client that does not read its downloads.
const (
	perStream = 64 << 10
	perConn   = 1 << 20
)

// TestUnreadDownloads opens a hundred endless downloads and reads none of them: the client grants no window, does not
// replenish it, or grants the largest window and does not read the socket.
func TestUnreadDownloads(t *testing.T) {
	const downloads = 100
	const all = 1<<31 - 1
	window := func(n uint32) rawhttp2.Frame {
		return rawhttp2.Settings(rawhttp2.Setting{ID: rawhttp2.InitialWindowSize, Value: n})
	}
	cases := map[string]struct {
		then []rawhttp2.Frame // sent when the downloads are open; until then they have no window
		read bool
		rig  func(*testing.T, relay.Config) *rig
	}{
		"no window":            {read: true, rig: newRig},
		"no window given back": {then: []rawhttp2.Frame{window(65535)}, read: true, rig: newRig},
		"socket not read":      {then: []rawhttp2.Frame{rawhttp2.WindowUpdate(0, all-65535), window(all)}, rig: newRig},
		"socket not read, TLS": {then: []rawhttp2.Frame{rawhttp2.WindowUpdate(0, all-65535), window(all)},
			rig: newTLSRig},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := tc.rig(t, relay.Config{})
			g.during(limits{buffers: downloads*perStream + perConn, goroutines: 10, streams: downloads}, func() {
				c := g.attacker(rawhttp2.Setting{ID: rawhttp2.InitialWindowSize, Value: 0})
				for i := range uint32(downloads) {
					check.Must(t, c.Write(rawhttp2.Headers(2*i+1, true, c.Block(request("/raw/download")...))))
				}
				go endless(g.backend())
				check.Must(t, c.Sync())
				check.Must(t, c.Write(tc.then...))
				if tc.read {
					go func() { _ = c.WaitClosed() }()
				}
				check.Succeeds(t, "the downloads to fill the memory", func() error {
					if u := g.relay.Usage(); u.Buffers < downloads*perStream/2 {
						return fmt.Errorf("usage %+v: the attack has no effect", u)
					}
					return nil
				})

				for range 50 {
					g.call()
				}
				check.Must(t, c.Close())
			})
		})
	}
}

// TestConnectionShare: one connection cannot use all the memory for slow readers. Streams beyond its share end, and its
// other streams continue.
func TestConnectionShare(t *testing.T) {
	const downloads, share = 100, 1 << 20
	g := newRig(t, relay.Config{Memory: relay.Memory{MaxConnBuffered: share}})
	g.during(limits{buffers: 2*share + perConn, goroutines: 10, streams: downloads}, func() {
		c := g.attacker(rawhttp2.Setting{ID: rawhttp2.InitialWindowSize, Value: 0})
		for i := range uint32(downloads) {
			check.Must(t, c.Write(rawhttp2.Headers(2*i+1, true, c.Block(request("/raw/download")...))))
		}
		go endless(g.backend())
		check.Succeeds(t, "downloads to end for want of memory", func() error {
			if n, want := g.handler.count(relay.MemoryExceeded), downloads-2*share/perStream; n < want {
				return fmt.Errorf("%d downloads ended for want of memory, at least %d expected", n, want)
			}
			return nil
		})
		g.call()

		const id = 2*downloads + 1
		check.Must(t, c.Write(rawhttp2.Headers(id, false, c.Block(request(methodEmpty)...)),
			rawhttp2.WindowUpdate(id, 100),
			rawhttp2.Data(id, true, rawhttp2.Message(nil))))
		r, err := c.WaitResponse(id)
		check.Must(t, err)
		if r.Status() != "0" {
			t.Errorf("another call on the connection: %v", r)
		}
		check.Must(t, c.Close())
	})
}

// endless plays a backend that answers each call with an endless body, as fast as the windows allow.
func endless(b *rawhttp2.Conn) {
	data := make([]byte, 16<<10)
	conn, streams := perConn, map[uint32]int{} // send windows
	for {
		f, err := b.Read()
		if err != nil {
			return
		}
		var out []rawhttp2.Frame
		switch f.Type {
		case rawhttp2.TypeHeaders:
			streams[f.Stream] = 65535
			out = append(out, rawhttp2.Headers(f.Stream, false,
				b.Block(":status", "200", "content-type", "application/grpc")))
		case rawhttp2.TypeReset:
			delete(streams, f.Stream)
		case rawhttp2.TypeWindowUpdate:
			if n := int(f.Code()); f.Stream == 0 {
				conn += n
			} else if _, open := streams[f.Stream]; open {
				streams[f.Stream] += n
			}
		}
		for id, window := range streams {
			for n := min(window, conn, len(data)); n > 0; n = min(window, conn, len(data)) {
				out = append(out, rawhttp2.Data(id, false, data[:n]))
				window, conn = window-n, conn-n
			}
			streams[id] = window
		}
		if len(out) > 0 && b.Write(out...) != nil {
			return
		}
	}
}

// TestCrumbs: a client grants its download one byte of window at a time, so that each byte costs a frame in both
// directions.
func TestCrumbs(t *testing.T) {
	g := newRig(t, relay.Config{})
	g.during(limits{buffers: 4 * perStream, goroutines: 10, streams: 1}, func() {
		c := g.attacker(rawhttp2.Setting{ID: rawhttp2.InitialWindowSize, Value: 0})
		check.Must(t, c.Write(rawhttp2.Headers(1, true, c.Block(request("/raw/download")...))))
		go endless(g.backend())
		ended := make(chan error, 1)
		go func() { ended <- wantCalm(c) }()
		var crumbs []byte
		for range 500 {
			crumbs = rawhttp2.WindowUpdate(1, 1).Append(crumbs)
		}
		g.flood(c, crumbs, ended)
	})
}

// TestAnswersUnread: a client that does not read the responses is not read any further, and is disconnected after a
// while.
func TestAnswersUnread(t *testing.T) {
	for name, start := range map[string]func(*testing.T, relay.Config) *rig{"cleartext": newRig, "TLS": newTLSRig} {
		t.Run(name, func(t *testing.T) {
			g := start(t, relay.Config{Timeouts: relay.Timeouts{KeepAlive: 300 * time.Millisecond,
				Ping: 3 * time.Second}})
			g.during(limits{buffers: perConn, goroutines: 8, streams: 1}, func() {
				_ = writeRefused(g.attacker(), 40_000) // responses of 36 MB in all
				g.call()
				g.settled(relay.Usage{Clients: 1})
			})
		})
	}
}

// TestAnswersReadLate: a client that reads its responses late gets all of them.
func TestAnswersReadLate(t *testing.T) {
	const calls = 20_000 // responses of 18 MB in all, more than the sockets' buffers hold
	g := newRig(t, relay.Config{})
	g.during(limits{buffers: perConn, goroutines: 8, streams: 1}, func() {
		c := g.attacker()
		check.Must(t, writeRefused(c, calls)) // requests of 300 KB in all, which the sockets' buffers hold
		check.Succeeds(t, "the upload to wait", func() error {
			if u := g.relay.Usage(); u.Buffers < 64<<10 {
				return fmt.Errorf("usage %+v: nothing waits", u)
			}
			return nil
		})
		g.call()

		for answers := 0; answers < calls; answers++ {
			_, err := c.Wait(func(f rawhttp2.Frame) bool {
				return f.Type == rawhttp2.TypeHeaders && f.Stream == uint32(2*answers+1) && f.Has(rawhttp2.EndStream)
			})
			check.Must(t, err)
		}
		check.Must(t, c.Close())
	})
}

// writeRefused makes calls that are refused with long messages.
func writeRefused(c *rawhttp2.Conn, calls int) error {
	for id := uint32(1); id < uint32(2*calls); id += 200 {
		var frames []rawhttp2.Frame
		for i := id; i < id+200; i += 2 {
			frames = append(frames, rawhttp2.Headers(i, true, c.Block(request("/refuse/")...)))
		}
		if err := c.Write(frames...); err != nil {
			return err
		}
	}
	return nil
}

// TestUploadUnread sends to a backend that reads nothing.
func TestUploadUnread(t *testing.T) {
	const uploads = 50
	g := newRig(t, relay.Config{})
	backend := make(chan *rawhttp2.Conn, 1)
	go func() {
		c := g.backend(rawhttp2.Setting{ID: rawhttp2.InitialWindowSize, Value: 0})
		backend <- c
		_ = c.WaitClosed()
	}()
	// A request that its backend has not read can still be sent to another one.
	g.during(limits{buffers: uploads*perStream + perConn, goroutines: 12, streams: uploads}, func() {
		c := g.attacker()
		piece := make([]byte, 16<<10-1)
		for i := range uint32(uploads) {
			check.Must(t, c.Write(rawhttp2.Headers(2*i+1, false, c.Block(request("/raw/upload")...))))
		}
		for range 4 { // 64 KiB: the whole window
			for i := range uint32(uploads) {
				check.Must(t, c.Write(rawhttp2.Data(2*i+1, false, piece)))
			}
		}
		check.Must(t, c.Sync())
		g.call()
		check.Must(t, c.Write(rawhttp2.Data(1, false, piece))) // one byte or more beyond the window
		code, err := c.WaitReset(1)
		check.Must(t, err)
		if code != rawhttp2.FlowControlError {
			t.Errorf("reset with error %d, want FLOW_CONTROL_ERROR", code)
		}
		check.Must(t, c.Close())
	})
	_ = (check.Received(t, backend, "the connection of the backend")).Close()
}
