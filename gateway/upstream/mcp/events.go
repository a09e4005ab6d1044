package mcp

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
)

// events is a body with events (WHATWG HTML §9.2), each of which is validated before the SDK reads it.
type events struct {
	of      *transport
	body    io.ReadCloser
	in      *bufio.Reader
	most    int    // maximum bytes of an event
	total   int    // remaining bytes of all events; -1 means no limit
	pace    *paced // rate limit of unsolicited messages; nil with ex, because total limits those
	ready   []byte
	ex      *exchange
	heard   hearer // handles all messages; nil for streams of the SDK
	size    int    // bytes of the current event
	returns bool   // the last line ended with a carriage return
	id      string // of the request that the events respond to; empty means none
	answer  []byte // the response; nil means not received yet
	rest    resumption
}

const maxEventID = 1 << 10 // bytes of an event's id; a response with a longer id cannot be resumed

// newEvents returns the body of a response to a request.
func newEvents(t *transport, r *http.Request, resp *http.Response, id string) *events {
	return &events{of: t, body: resp.Body, in: bufio.NewReader(resp.Body), most: t.maxMessage, total: -1, id: id,
		rest: resumption{request: r, wait: resumeAfter}}
}

// Read implements io.Reader.
func (b *events) Read(p []byte) (int, error) {
	for len(b.ready) == 0 {
		event, err := b.next()
		switch {
		case err == nil:
			b.ready = event
		case !b.resume():
			return 0, err
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// Close implements io.Closer.
func (b *events) Close() error { return b.body.Close() }

// next reads one event, and returns the part that the SDK uses.
func (b *events) next() ([]byte, error) {
	var data, out []byte
	name, lines := "", 0
	for b.size = 0; ; {
		text, err := b.line()
		if err != nil {
			return nil, err
		}
		if len(text) == 0 {
			break
		}
		field, value, _ := bytes.Cut(text, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = string(value)
		case "id", "retry":
			switch {
			case len(value) > maxEventID:
			case b.id != "": // the SDK must not resume it
				b.rest.note(string(field), string(value))
			default:
				out = fmt.Appendf(out, "%s: %s\n", field, value)
			}
		case "data":
			if lines++; lines > 1 {
				data = append(data, '\n')
			}
			data = append(data, value...)
		}
	}
	if len(data) > 0 && (name == "" || name == "message") {
		pass, err := b.receive(data)
		if err != nil {
			return nil, b.fail(err)
		}
		out = append(out, pass...)
	}
	if err := b.pace.take(perEvent); err != nil {
		return nil, err
	}
	if len(out) > 0 {
		out = append(out, '\n')
	}
	return out, nil
}

// receive returns the message of an event as lines of data.
func (b *events) receive(data []byte) (out []byte, _ error) {
	if b.heard != nil {
		return nil, b.heard.heard(b.of, b.rest.request, data)
	}
	pass, answers, err := b.of.receive(data, b.ex, b.id, false)
	if err != nil || pass == nil {
		return nil, err
	}
	if answers && b.answer == nil {
		b.answer = pass
	}
	for line := range bytes.SplitSeq(pass, []byte("\n")) {
		out = append(append(append(out, "data: "...), line...), '\n')
	}
	return out, nil
}

// line reads one line without its end: a line feed, a carriage return, or both.
func (b *events) line() ([]byte, error) {
	var line []byte
	for {
		if _, err := b.in.Peek(1); err != nil {
			return nil, err
		}
		part, _ := b.in.Peek(b.in.Buffered()) // that much is buffered
		n, text, ended := 1, part[:0], false
		if !b.returns || part[0] != '\n' {
			text = part
			if end := bytes.IndexAny(part, "\r\n"); end >= 0 {
				text, ended = part[:end], true
			}
			n = len(text)
		}
		b.returns = false
		line = append(line, text...)
		if ended {
			b.returns = part[n] == '\r'
			n++
		}
		_, _ = b.in.Discard(n)
		if err := b.count(n); err != nil {
			return nil, err
		}
		if ended {
			return line, nil
		}
	}
}

// count counts bytes of an event, and waits for the rate limit.
func (b *events) count(n int) error {
	if b.total >= 0 {
		if b.total -= n; b.total < 0 {
			return b.fail(errTooMuch(maxStreamSize * b.most))
		}
	}
	if b.size += n; b.size > b.most {
		return b.fail(errTooMuch(b.most))
	}
	return b.pace.take(n)
}

func (b *events) fail(err error) error {
	if b.ex != nil {
		b.ex.fail(err)
	}
	b.rest.id = ""
	_ = b.body.Close() // the rest is not needed
	return err
}

const (
	resumeAfter  = time.Second            // default time between two requests for the rest of a response
	resumeLeast  = 100 * time.Millisecond // minimum of the time that the server may name
	resumeMost   = 30 * time.Second
	maxUnresumed = 2 // consecutive requests for the rest that may fail
)

// resumption is the state for requesting the rest of a response whose stream has ended (2025-11-25, Streamable HTTP,
// "Resumability and Redelivery"). A server may end a stream repeatedly, and have its client poll. The SDK reads a
// single stream.
type resumption struct {
	request *http.Request // the original request
	id      string        // of the last event; empty means the rest cannot be requested
	wait    time.Duration
	failed  int
}

// note processes a field of an event.
func (r *resumption) note(field, value string) {
	if field == "id" {
		r.id = value
		return
	}
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		r.wait = min(max(time.Duration(n)*time.Millisecond, resumeLeast), resumeMost)
	}
}

// resume requests the rest of the response. It returns false if there is none.
func (b *events) resume() bool {
	for b.answer == nil && b.rest.id != "" && b.rest.failed < maxUnresumed {
		resp, err := b.of.resume(&b.rest)
		switch {
		case b.rest.request.Context().Err() != nil:
			return false
		case err != nil:
			b.rest.failed++
		case isGood(resp) && isEvents(resp):
			_ = b.body.Close()
			b.body, b.in, b.returns, b.rest.failed = resp.Body, bufio.NewReader(resp.Body), false, 0
			return true
		case resp.StatusCode >= http.StatusInternalServerError:
			_ = resp.Body.Close()
			b.rest.failed++
		default:
			_ = resp.Body.Close()
			return false
		}
	}
	return false
}

// resume requests the rest of a response after a delay.
func (t *transport) resume(of *resumption) (*http.Response, error) {
	ctx := of.request.Context()
	if !backoff.Sleep(ctx, of.wait) {
		return nil, ctx.Err()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, of.request.URL.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header = of.request.Header.Clone()
	for _, name := range [...]string{"Content-Type", "Mcp-Method", "Mcp-Name"} {
		r.Header.Del(name)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Last-Event-Id", of.id)
	if err = t.identify(r, head{}); err != nil { // the former assertion may have expired
		return nil, err
	}
	return t.roundTrip(r)
}
