package backend

import (
	"time"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/loop"
)

// pacer spreads the messages of its streams evenly: with 200 streams of 50 messages a second, it sends one message
// every 100 µs.
type pacer struct {
	loop    *loop.Loop
	streams []pacedStream
	next    int
}

type pacedStream struct {
	conn   *conn
	stream *h2.Stream
	id     uint32
	rate   int // messages a second
}

func (p *pacer) add(c *conn, st *h2.Stream, rate int) error {
	p.streams = append(p.streams, pacedStream{c, st, st.ID, rate})
	return p.set()
}

// set adjusts the rate to the sum of the streams' rates.
func (p *pacer) set() error {
	total := 0
	for _, s := range p.streams {
		total += s.rate
	}
	if total == 0 {
		return p.loop.Every(0, p.tick)
	}
	return p.loop.Every(time.Second/time.Duration(total), p.tick)
}

func (p *pacer) tick(n uint64) {
	for range min(n, uint64(len(p.streams))) {
		p.next = (p.next + 1) % len(p.streams)
		s := p.streams[p.next]
		if s.stream.ID != s.id || !s.conn.session.Extend(s.stream, 1) {
			p.drop(p.next)
			if len(p.streams) == 0 {
				return
			}
			continue
		}
		s.conn.socket.Flush()
	}
}

func (p *pacer) remove(st *h2.Stream) {
	for i, s := range p.streams {
		if s.stream == st {
			p.drop(i)
			return
		}
	}
}

// leave removes the streams of a closed connection.
func (p *pacer) leave(c *conn) {
	for i := len(p.streams) - 1; i >= 0; i-- {
		if p.streams[i].conn == c {
			p.drop(i)
		}
	}
}

func (p *pacer) drop(i int) {
	last := len(p.streams) - 1
	p.streams[i] = p.streams[last]
	p.streams = p.streams[:last]
	_ = p.set()
}
