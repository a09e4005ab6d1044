package mcp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"time"
)

const (
	dialTimeout   = 5 * time.Second  // of a connection
	idleTimeout   = 60 * time.Second // until an unused connection closes
	maxIdle       = 64               // connections of one server
	maxHeader     = 64 << 10         // bytes of a response's headers
	maxErrorBody  = 64 << 10         // bytes of a response that is no success
	maxNotice     = 64 << 10         // bytes of a message that no request asked for
	maxStreamSize = 4                // as many times the largest message may one response have, with what precedes it
)

// transport is the HTTP client of one server. It adds the configured headers, follows no redirect, bounds responses,
// and takes no message that has more than one reading.
type transport struct {
	base       *http.Transport
	header     http.Header
	maxMessage int
}

func newTransport(t *tls.Config, header http.Header, maxMessage int) *transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	return &transport{header: header, maxMessage: maxMessage, base: &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: t, ForceAttemptHTTP2: true, TLSHandshakeTimeout: dialTimeout,
		MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTimeout,
		MaxResponseHeaderBytes: maxHeader, DisableCompression: true,
	}}
}

func (t *transport) client() *http.Client {
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a redirect could carry credentials to another host
	}}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ex := exchangeFor(r)
	out := r.Clone(r.Context())
	for name, values := range t.header {
		out.Header[name] = values
	}
	if trace := traceOf(r.Context()); trace != "" {
		out.Header.Set("Traceparent", trace)
	}
	if ex != nil {
		out = ex.traced(out)
	}
	resp, err := t.base.RoundTrip(out)
	if ex != nil {
		ex.responded(resp, err)
	}
	if err != nil {
		return nil, err
	}
	resp.Body = t.bounded(r, resp, ex)
	return resp, nil
}

// bounded is the body of a response, of which no more is read than it may have.
func (t *transport) bounded(r *http.Request, resp *http.Response, ex *exchange) io.ReadCloser {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return &limited{body: resp.Body, left: maxErrorBody, ex: ex}
	case kind == "text/event-stream":
		b := &events{body: resp.Body, in: bufio.NewReader(resp.Body), most: t.maxMessage, total: -1, ex: ex}
		if ex != nil {
			b.total = maxStreamSize * t.maxMessage
		} else if r.Method == http.MethodGet {
			b.most = maxNotice
		}
		return b
	}
	return &whole{limited: limited{body: resp.Body, left: t.maxMessage, ex: ex}}
}

// errTooMuch is the end of a response that is larger than it may be.
func errTooMuch(most int) error {
	return fmt.Errorf("the MCP server's response is larger than %d bytes", most)
}

// limited is a body that ends with an error where it is too long.
type limited struct {
	body io.ReadCloser
	left int
	read int
	ex   *exchange
}

// Read implements io.Reader.
func (b *limited) Read(p []byte) (int, error) {
	if len(p) > b.left-b.read+1 {
		p = p[:b.left-b.read+1]
	}
	n, err := b.body.Read(p)
	if b.read += n; b.read > b.left {
		return 0, b.fail(errTooMuch(b.left))
	}
	return n, err
}

func (b *limited) fail(err error) error {
	if b.ex != nil {
		b.ex.fail(err)
	}
	return err
}

// Close implements io.Closer.
func (b *limited) Close() error { return b.body.Close() }

// whole is a body with one message, which is read before the SDK sees it.
type whole struct {
	limited
	text *bytes.Reader // nil: it was not read yet
}

// Read implements io.Reader.
func (b *whole) Read(p []byte) (int, error) {
	if b.text == nil {
		text, err := io.ReadAll(&b.limited)
		if err != nil {
			return 0, err
		}
		if len(bytes.TrimSpace(text)) > 0 { // else it is that of a notification
			if err = b.ex.message(text, true); err != nil {
				return 0, b.fail(err)
			}
		}
		b.text = bytes.NewReader(text)
	}
	return b.text.Read(p)
}

// events is a body with events (WHATWG HTML §9.2), each of which is read before the SDK sees it.
type events struct {
	body  io.ReadCloser
	in    *bufio.Reader
	most  int // bytes of an event
	total int // bytes of all; -1: any number
	ready []byte
	ex    *exchange
}

// Read implements io.Reader.
func (b *events) Read(p []byte) (int, error) {
	for len(b.ready) == 0 {
		event, err := b.next()
		if err != nil {
			return 0, err
		}
		b.ready = event
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// Close implements io.Closer.
func (b *events) Close() error { return b.body.Close() }

// next reads one event, with the empty line after it.
func (b *events) next() (event []byte, err error) {
	var data []byte
	lines := 0
	for {
		line, err := b.line(len(event))
		event = append(event, line...)
		if err != nil {
			return nil, err
		}
		text := bytes.TrimRight(line, "\r\n")
		if len(text) == 0 {
			break
		}
		if value, ok := bytes.CutPrefix(text, []byte("data:")); ok {
			if lines++; lines > 1 {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		}
	}
	if len(data) > 0 {
		if err = b.ex.message(data, false); err != nil {
			return nil, b.fail(err)
		}
	}
	return event, nil
}

// line reads one line of an event of which there are have bytes.
func (b *events) line(have int) ([]byte, error) {
	var line []byte
	for {
		part, err := b.in.ReadSlice('\n')
		line = append(line, part...)
		if b.total >= 0 {
			if b.total -= len(part); b.total < 0 {
				return nil, b.fail(errTooMuch(maxStreamSize * b.most))
			}
		}
		if have+len(line) > b.most {
			return nil, b.fail(errTooMuch(b.most))
		}
		if err != bufio.ErrBufferFull { //nolint:errorlint // as ReadSlice documents it
			return line, err
		}
	}
}

func (b *events) fail(err error) error {
	if b.ex != nil {
		b.ex.fail(err)
	}
	_ = b.body.Close() // nothing more of it is wanted
	return err
}

type traceKey struct{}

// withTrace is a context whose requests carry a W3C traceparent; "": none.
func withTrace(ctx context.Context, parent string) context.Context {
	return context.WithValue(ctx, traceKey{}, parent)
}

func traceOf(ctx context.Context) string {
	parent, _ := ctx.Value(traceKey{}).(string)
	return parent
}
