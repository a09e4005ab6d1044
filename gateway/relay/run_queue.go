package relay

import (
	"os"
	"syscall"
	"time"
)

// How long a connection's input is dealt with while others wait, in nanoseconds. Short turns cost more, as less is
// written at once. They are for when clients are there that bring little, whom the turns of all others delay.
const (
	turn      = int64(100 * time.Microsecond)
	shortTurn = int64(25 * time.Microsecond)
)

// A client brings little that has not been in the line for so long, whose connection has carried so few bytes of late,
// and whose calls are dealt with in so short a time. One that gets much is no such client, however small its requests.
const (
	unlined = int64(50 * time.Millisecond)
	little  = int64(10 * time.Microsecond)
	company = int64(10 * time.Millisecond) // how long it counts as being there

	littleBytes = 64 << 10
)

// turn is how long one is now.
func (sh *shard) turn() int64 {
	if sh.light != 0 && sh.now-sh.light < company {
		return shortTurn
	}
	return turn
}

// notice looks whether a client brings little that began calls in this turn.
func (sh *shard) notice(c *conn) {
	if c.pool != nil || c.lastID == c.noticed {
		return
	}
	if c.noticed = c.lastID; sh.now-c.lined > unlined && c.traffic.bytes < littleBytes && sh.clock()-sh.now < little {
		sh.light = sh.now
	}
}

// traffic is how many bytes a connection has carried of late, both ways.
type traffic struct {
	bytes int
	since int64
}

// add counts n bytes more. What is older than company counts half, and a quarter after as long again.
func (t *traffic) add(now int64, n int) {
	if old := (now - t.since) / company; old > 0 {
		t.bytes >>= min(old, 32)
		t.since = now
	}
	t.bytes += n
}

// backsFirst is how many turns connections to backends have for one of a client: what was
// begun comes to its end before more is, else the calls of all wait at the backends.
const backsFirst = 16

// line is where connections of a shard wait that had a turn and have more to read. Who has
// little goes before them: the line moves by one place each time that the runtime has looked
// which sockets have become readable.
//
// The runtime does not look as long as some goroutine can run, or only every 10 ms: a
// connection that went on in a goroutine of its own would keep all others waiting. The line
// therefore tells itself to move by a pipe, which is one of the things that are looked at.
type line struct {
	backs  queueOf[waiter] // connections to backends
	fronts queueOf[waiter] // clients
	pass   int             // turns of backs until one of fronts
	r, w   *os.File        // nil: there is no pipe
	wfd    int
	woken  bool    // there is a byte in the pipe
	byte   [1]byte // that is read from it
	closed bool
}

// waiter is who waits in a line.
type waiter interface {
	// turn is called once, with the shard locked.
	turn()
	// abandon is called instead of turn when the shard has thrown away its connections.
	abandon()
}

// queueUp puts a link at the end of the line. answers says that a backend is at its other end.
func (sh *shard) queueUp(w waiter, answers bool) {
	q := &sh.line
	switch {
	case q.r == nil || q.closed:
		sh.relay.wg.Go(func() {
			sh.enter()
			defer sh.leave()
			w.turn()
		})
		return
	case answers:
		q.backs.push(w)
	default:
		q.fronts.push(w)
	}
	q.wake()
}

// openLine makes the line move. Where it fails, who would queue up has its turn in a goroutine
// of its own.
func (sh *shard) openLine() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	in, err := r.SyscallConn()
	if err == nil {
		var out syscall.RawConn
		if out, err = w.SyscallConn(); err == nil {
			err = out.Control(func(fd uintptr) { sh.line.wfd = int(fd) })
		}
	}
	if err != nil {
		_, _ = r.Close(), w.Close()
		return err
	}
	sh.line.r, sh.line.w = r, w
	sh.relay.wg.Go(func() { _ = in.Read(sh.moveLine) })
	return nil
}

// moveLine gives the next one its turn, and returns true when there will be none.
func (sh *shard) moveLine(fd uintptr) bool {
	sh.enter()
	defer sh.leave()
	q := &sh.line
	if q.closed {
		return true
	}
	if !q.woken {
		return false
	}
	_, err := sysRead(int(fd), q.byte[:])
	q.woken = err != nil
	if w := q.next(); w != nil {
		w.turn()
	}
	if q.backs.len()+q.fronts.len() > 0 {
		if q.wake(); q.woken {
			sh.linger()
		}
	}
	return false
}

func (q *line) wake() {
	if !q.woken {
		_, err := syscall.Write(q.wfd, []byte{0})
		q.woken = err == nil
	}
}

// next takes out whose turn it is; nil when nobody waits.
func (q *line) next() waiter {
	if q.backs.len() > 0 && (q.pass > 0 || q.fronts.len() == 0) {
		q.pass--
		return q.backs.pop()
	}
	q.pass = backsFirst
	return q.fronts.pop()
}

// closeLine ends the line. Who still waits has its turn at once.
func (sh *shard) closeLine() {
	q := &sh.line
	sh.emptyLine()
	if q.r != nil {
		_, _ = q.r.Close(), q.w.Close()
	}
}

func (sh *shard) emptyLine() {
	sh.enter()
	defer sh.leave()
	q := &sh.line
	q.closed = true
	for q.backs.len()+q.fronts.len() > 0 {
		q.next().turn()
	}
}

// queueOf is a queue whose memory is used again.
type queueOf[T any] struct {
	all []T
	at  int // the first
}

func (q *queueOf[T]) len() int { return len(q.all) - q.at }
func (q *queueOf[T]) push(x T) { q.all = append(q.all, x) }

// pop answers nothing when nobody is there.
func (q *queueOf[T]) pop() (x T) {
	if q.len() == 0 {
		return x
	}
	q.all[q.at], x = x, q.all[q.at]
	if q.at++; 2*q.at >= len(q.all) {
		n := copy(q.all, q.all[q.at:])
		clear(q.all[n:])
		q.all, q.at = q.all[:n], 0
	}
	return x
}

// token waits in a line to know how long that takes.
type token chan struct{}

func (t token) turn()    { close(t) }
func (t token) abandon() { close(t) }
