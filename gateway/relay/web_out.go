package relay

import (
	"os"
	"runtime"
	"time"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// webOut is the handler's output for the shard, except bytes of the body.
type webOut struct {
	head    webHead
	headed  bool // head is valid
	bare    bool // nothing follows head
	dropped int  // held bytes of a body that is not sent
	last    bool // nothing follows
	trailer []hpack.Field
}

// inform sends an informational response, unless the response has started.
func (e *webEnd) inform(head webHead) {
	e.mu.Lock()
	tell := !e.shut && !e.reply.headed && len(e.reply.early) < maxEarly
	if tell {
		e.reply.early = append(e.reply.early, head)
	}
	e.mu.Unlock()
	if tell {
		e.sh.post(&e.event)
	}
}

// hold adds p to the bytes to be sent next, without posting. kept is false if there is no window for p.
func (e *webEnd) hold(p []byte) (kept bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.shut:
		return false, e.why()
	case e.credit < len(p):
		return false, nil
	}
	e.put(p)
	return true, nil
}

// held returns a copy of the first bytes that hold has added; nothing for an ended stream.
func (e *webEnd) held() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.out) < frameHeaderLen {
		return nil
	}
	return append([]byte(nil), e.out[frameHeaderLen:]...)
}

// give posts out, and p after the held bytes. It blocks while the window is exhausted.
func (e *webEnd) give(out *webOut, p []byte) error {
	for {
		rest, signal, by, err := e.giveSome(out, p)
		if err != nil {
			e.sh.tryDrain()
			return err
		}
		e.sh.push(&e.event)
		if out.last {
			runtime.Gosched() // other runnable goroutines go first, so that one turn writes many responses
		}
		e.sh.tryDrain()
		if len(rest) == 0 {
			return nil
		}
		p = rest
		await(signal, by)
	}
}

// giveSome gives as much as there is window for. If it returns a rest, the caller has to wait for the signal, or until
// the write deadline.
func (e *webEnd) giveSome(out *webOut, p []byte) (rest []byte, signal <-chan struct{}, by time.Time, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.shut:
		return nil, nil, by, e.why()
	case out.headed && !e.reply.headed:
		e.reply.headed, e.reply.head, e.reply.bare = true, out.head, out.bare
	case !e.writeBy.IsZero() && !time.Now().Before(e.writeBy):
		return nil, nil, by, e.late()
	}
	if out.dropped > 0 {
		e.out = e.out[:0]
		e.credit += out.dropped
		out.dropped = 0
	}
	rest = e.put(p)
	if e.writes = len(rest) > 0; e.writes {
		signal = waitsFor(&e.writable)
	} else if out.last && !out.bare {
		e.reply.trailer, e.reply.ended = out.trailer, len(out.trailer) > 0
		e.outEnd = !e.reply.ended
	}
	return rest, signal, e.writeBy, nil
}

// late ends a response that the client has not read in time. The caller must hold mu.
func (e *webEnd) late() error {
	e.reply.reset, e.reply.code = true, errInternal
	e.shut, e.unwritten = true, os.ErrDeadlineExceeded
	e.sh.push(&e.event)
	return os.ErrDeadlineExceeded
}

// statusText returns a status in the form of :status.
func statusText(status int) string {
	return string([]byte{byte('0' + status/100), byte('0' + status/10%10), byte('0' + status%10)})
}
