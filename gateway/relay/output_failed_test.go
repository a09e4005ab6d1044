package relay

import (
	"errors"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestInputAfterAFailureOfTheOutput: a backend that responds, and closes its connection before it has read the whole
// request, is read to the end although the relay can no longer write to it. The connection accepts no other calls, and
// ends within lingerTime.
func TestInputAfterAFailureOfTheOutput(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m := newMachine(t, 1, Config{})
		client := m.addClient()
		start := func() *call {
			k := m.newCall()
			k.mode, k.reqLen, k.respLen, k.trailers = "forward", 5000, 100, fields("grpc-status", "0")
			k.open(client)
			return k
		}
		deliver := func(e *endpoint) {
			for m.takes(e) {
				m.deliver(e, readBuffer)
			}
			m.collect()
		}
		first, second := start(), start()
		deliver(client)
		m.settleDials()
		back := m.upstreams[0]
		deliver(back)
		for !first.ups[0].sentEnd {
			first.sendResponse()
		}
		back.link.failure = errors.New("a reset")
		first.sendRequest()
		deliver(client)
		third := start()
		deliver(client)
		m.settleDials()
		deliver(m.upstreams[len(m.upstreams)-1])
		if len(third.ups) == 0 || third.ups[0].e == back {
			t.Error("the next call was not sent to another connection")
		}
		deliver(back)
		if d := first.down; d.status != "0" || d.got != first.respLen {
			t.Errorf("%d bytes of the response arrived, status %q", d.got, d.status)
		}
		if back.c.closed || second.done > 0 {
			t.Error("the connection ended before its input")
		}
		m.pass(time.Duration(lingerTime / 2))
		back.wire = append(back.wire, 0, 0, 8) // of a frame that never ends
		deliver(back)
		m.pass(time.Duration(lingerTime/2 + 2*tick))
		m.collect()
		if !back.c.closed || second.down.status != "14" && second.unsent == 0 {
			t.Errorf("closed %v, status %q of the other call", back.c.closed, second.down.status)
		}
	})
}

// TestOutputOfATurnIsNotCharged: a connection whose records wait for the socket is charged for them, and not for the
// output of the current turn, which the link may accept: with a full account, the connection would be lost.
func TestOutputOfATurnIsNotCharged(t *testing.T) {
	t.Parallel()
	p := newTLSPair(t)
	const records, output = 40 << 10, 60 << 10
	p.turn(func(c *conn) {
		p.link.tls.out = p.sh.buffers.get(records)[:records]
		c.chargeOutput()
		charged := c.charged
		c.write(c.space(output)[:output])
		if c.chargeOutput(); charged == 0 || c.charged != charged {
			t.Errorf("%d bytes are charged, not %d", c.charged, charged)
		}
		c.blocked = true
		if c.chargeOutput(); c.charged < charged+output {
			t.Errorf("%d bytes are charged of output that the link did not accept", c.charged)
		}
		c.lost(errors.New("the end of the test"))
	})
}
