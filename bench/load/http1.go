package load

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/capgate/capgate/bench/loop"
)

// http1 is one HTTP/1.1 connection, kept alive, with one request at a time.
type http1 struct {
	run     *run
	socket  *loop.Conn
	request []byte
	out     []byte
	in      []byte // start of an incomplete response
	waiting bool
	started time.Time
}

func newHTTP1(r *run) *http1 {
	j := r.cfg.JSON
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nAccept: %s\r\n"+
		"Content-Type: %s\r\nContent-Length: %d\r\n", j.Path, r.cfg.Target, userAgent, cmp.Or(j.Accept, "*/*"),
		cmp.Or(j.Type, "application/json"), len(j.Body))
	for _, field := range r.cfg.Fields() {
		request = fmt.Appendf(request, "%s: %s\r\n", field[0], field[1])
	}
	return &http1{run: r, request: fmt.Appendf(request, "\r\n%s", j.Body)}
}

func (c *http1) attach(s *loop.Conn) { c.socket = s }

func (c *http1) settled() (streams uint32, ok bool) { return 1, true }

func (c *http1) limit() int { return 1 }

func (c *http1) open() int {
	if c.waiting {
		return 1
	}
	return 0
}

func (c *http1) start(now time.Time) {
	c.out = append(c.out, c.request...)
	c.waiting, c.started = true, now
	c.run.inflight++
	c.socket.Flush()
}

// Output implements loop.Handler.
func (c *http1) Output() (*[]byte, bool) { return &c.out, false }

// Closed implements loop.Handler.
func (c *http1) Closed(err error) { c.run.fail(fmt.Errorf("connection lost: %w", err)) }

// Read implements loop.Handler.
func (c *http1) Read(p []byte) error {
	c.run.bytes += int64(len(p))
	all := p
	if len(c.in) > 0 {
		c.in = append(c.in, p...)
		all = c.in
	}
	size, status, err := responseSize(all)
	switch {
	case err != nil:
		return err
	case size == 0:
		if len(c.in) == 0 {
			c.in = append(c.in, p...)
		}
		return nil
	case size < len(all) || !c.waiting:
		return errors.New("received bytes after the response")
	}
	good := status == "200"
	if !good {
		c.run.rejected(fmt.Sprintf("status %s: %.1000q", status, all))
	}
	c.in = c.in[:0]
	c.ended(good)
	return nil
}

func (c *http1) ended(good bool) {
	now := time.Now()
	c.waiting = false
	c.run.inflight--
	if good {
		c.run.done(now.Sub(c.started))
	}
	if c.run.cfg.Mode == Closed && !c.run.stopping {
		c.start(now)
	}
}

var (
	headEnd       = []byte("\r\n\r\n")
	lineEnd       = headEnd[:2]
	contentLength = []byte("content-length:")
	chunkedCoding = []byte("transfer-encoding: chunked")
)

// maxResponse is the largest response, in bytes.
const maxResponse = 32 << 20

// responseSize returns the size and the status of the response at the start of b. The size is 0 if the response is
// incomplete.
func responseSize(b []byte) (size int, status string, err error) {
	const statusAt, statusEnd = len("HTTP/1.1 "), len("HTTP/1.1 200")
	head := bytes.Index(b, headEnd)
	switch {
	case len(b) > maxResponse:
		return 0, "", errors.New("the response is too large")
	case head < 0:
		return 0, "", nil
	case head < statusEnd:
		return 0, "", fmt.Errorf("no status line: %.100q", b)
	}
	status = string(b[statusAt:statusEnd])
	body := b[head+len(headEnd):]
	length := -1
	for line := range bytes.SplitSeq(b[:head], lineEnd) {
		switch {
		case hasPrefixFold(line, contentLength):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(contentLength):]))); err != nil {
				return 0, "", err
			}
		case hasPrefixFold(line, chunkedCoding):
			if length, err = chunkedSize(body); err != nil || length == 0 {
				return 0, "", err
			}
		}
	}
	if length < 0 {
		return 0, "", fmt.Errorf("the response has no Content-Length: %.200q", b[:head])
	}
	if len(body) < length {
		return 0, "", nil
	}
	return head + len(headEnd) + length, status, nil
}

// chunkedSize returns the size of a chunked body (RFC 9112 §7.1), or 0 if it is incomplete. Trailers are not supported.
func chunkedSize(body []byte) (int, error) {
	for at := 0; ; {
		line := bytes.Index(body[at:], lineEnd)
		if line < 0 {
			return 0, nil
		}
		n, err := strconv.ParseUint(string(body[at:at+line]), 16, 31)
		if err != nil {
			return 0, fmt.Errorf("chunk size: %w", err)
		}
		at += line + 2*len(lineEnd) + int(n)
		if at > len(body) {
			return 0, nil
		}
		if n == 0 {
			return at, nil
		}
	}
}

func hasPrefixFold(line, prefix []byte) bool {
	return len(line) >= len(prefix) && bytes.EqualFold(line[:len(prefix)], prefix)
}
