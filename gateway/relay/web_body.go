package relay

import (
	"io"
	"net/http"
	"os"
	"time"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// webBody is the body of a request. It may be closed while it is read.
type webBody struct {
	end      *webEnd
	expected bool        // the client waits until it is read (RFC 9110 §10.1.1)
	trailer  http.Header // of the request; set at its end
	whole    bool        // it was read to its end
}

// Read implements io.Reader.
func (b *webBody) Read(p []byte) (int, error) {
	e := b.end
	if b.expected {
		b.expected = false
		e.inform(webHead{status: http.StatusContinue})
	}
	if b.whole {
		return 0, io.EOF
	}
	for {
		n, tell, signal, by, err := e.takeBytes(p)
		if tell {
			e.sh.post(&e.event)
		}
		switch err {
		case errNotYet:
			await(signal, by)
			continue
		case io.EOF:
			b.finish()
		}
		return n, err
	}
}

// finish sets the request's trailers for the handler.
func (b *webBody) finish() {
	b.whole = true
	trailers := b.end.trailers()
	for i := range trailers {
		f := &trailers[i]
		name := canonicalName(f.Name)
		b.trailer[name] = append(b.trailer[name], f.Value)
	}
}

// Close implements io.Closer.
func (b *webBody) Close() error {
	b.end.stopReading(http.ErrBodyReadAfterClose)
	return nil
}

// takeBytes reads without waiting. If tell is true, the shard must be notified of the taken bytes. After errNotYet the
// caller has to wait for the signal, or until the read deadline.
func (e *webEnd) takeBytes(p []byte) (n int, tell bool, signal <-chan struct{}, by time.Time, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reads = false
	switch {
	case e.unread == http.ErrBodyReadAfterClose: //nolint:errorlint // it is set below
		return 0, false, nil, by, e.unread
	case len(p) == 0:
	case e.in.len() > 0:
		n = copy(p, e.in.buf[e.in.off:])
		e.in.off += n
		e.taken += n
		return n, e.isDue(), nil, by, nil
	case e.requestEnd:
		err = io.EOF
	case e.unread != nil:
		err = e.unread
	case e.inEnd:
		err = e.why()
	case !e.readBy.IsZero() && !time.Now().Before(e.readBy):
		e.unread = os.ErrDeadlineExceeded
		err = e.unread
	default:
		e.reads, err = true, errNotYet
		signal = waitsFor(&e.readable)
	}
	return 0, false, signal, e.readBy, err
}

// stopReading ends all waits of Read.
func (e *webEnd) stopReading(why error) {
	e.mu.Lock()
	if e.unread == nil || why == http.ErrBodyReadAfterClose { //nolint:errorlint // it is a constant
		e.unread = why
	}
	readable := e.readable
	e.mu.Unlock()
	wake(readable)
}

func (e *webEnd) trailers() []hpack.Field {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.trailer
}

// why returns the reason for the end of the stream.
func (e *webEnd) why() error {
	if e.unwritten != nil {
		return e.unwritten
	}
	if err := e.ctx.Err(); err != nil {
		return err
	}
	return errStreamOver
}

// await waits for a signal, until by; zero means no limit.
func await(signal <-chan struct{}, by time.Time) {
	if by.IsZero() {
		<-signal
		return
	}
	t := time.NewTimer(time.Until(by))
	defer t.Stop()
	select {
	case <-signal:
	case <-t.C:
	}
}
