package mcp

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/upstream"
)

const (
	dialTimeout   = 5 * time.Second  // of a connection
	idleTimeout   = 60 * time.Second // until an unused connection closes
	maxIdle       = 64               // connections of one server
	maxHeader     = 64 << 10         // bytes of a response's headers
	maxErrorBody  = 64 << 10         // bytes of a response that is no success
	maxNotice     = 64 << 10         // bytes of a message that no request asked for
	maxStreamSize = 4                // as many times the largest message may one response have, with what precedes it
	maxResumes    = 2                // requests for the rest of a response, from one event on
	asideTimeout  = 5 * time.Second  // of a message that expects no response
)

// transport is the HTTP client of one server. It adds the configured headers, follows no redirect, bounds responses,
// and takes no message that has more than one reading.
type transport struct {
	base       *http.Transport
	header     http.Header
	maxMessage int
	questions  atomic.Int32 // requests of the server that are not answered yet
	notices    pace
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
	switch {
	case ex == nil:
		return t.plain(out)
	case r.Method == http.MethodGet:
		return t.resume(out, ex)
	}
	resp, err := t.base.RoundTrip(ex.traced(out))
	ex.responded(resp, err)
	if err != nil {
		return nil, err
	}
	t.note(r, resp)
	return t.noted(resp, ex), nil
}

// plain sends what is no noted request.
func (t *transport) plain(r *http.Request) (*http.Response, error) {
	aside, answers := isAside(r)
	if aside {
		return t.aside(r, answers), nil
	}
	if r.Method == http.MethodGet {
		if !t.notices.take(r.Context().Done(), perStream) { // a stream that ends is opened again
			return nil, r.Context().Err()
		}
	}
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	t.note(r, resp)
	if r.Method == http.MethodPost && resp.StatusCode/100 == 3 {
		_ = resp.Body.Close()
		return nil, redirected(resp)
	}
	if r.Method == http.MethodGet && !isGood(resp) { // the server has no stream of notices, whatever it says
		resp.StatusCode = http.StatusMethodNotAllowed
	}
	b := &events{of: t, body: resp.Body, in: bufio.NewReader(resp.Body), most: t.maxMessage, total: -1, pace: &paced{&t.notices, r.Context().Done()}}
	switch {
	case !isGood(resp):
		resp.Body = &limited{body: resp.Body, left: maxErrorBody}
	case isEvents(resp) && r.Method == http.MethodGet:
		b.most = maxNotice
		resp.Body = b
	case isEvents(resp):
		resp.Body = b
	default:
		resp.Body = &whole{of: t, limited: limited{body: resp.Body, left: t.maxMessage}}
	}
	return resp, nil
}

// redirected is the error of a redirect, for operators. A query could be a secret.
func redirected(resp *http.Response) error {
	to, err := resp.Location()
	if err != nil {
		return fmt.Errorf("the MCP server redirects to no URL: HTTP %d", resp.StatusCode)
	}
	plain := url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}
	return fmt.Errorf("the MCP server redirects to %s: HTTP %d; no redirect is followed, so set the backend to its final "+
		"URL", upstream.Clip(plain.String(), maxURL), resp.StatusCode)
}

// maxURL is how many bytes of a URL to which a server redirects are told.
const maxURL = 200

// aside sends a message that expects no response. What becomes of it is no matter to the session.
func (t *transport) aside(r *http.Request, answers bool) *http.Response {
	ctx, cancel := context.WithTimeout(r.Context(), asideTimeout)
	defer cancel()
	resp, err := t.base.RoundTrip(r.WithContext(ctx))
	if err == nil {
		_ = resp.Body.Close()
	}
	if answers {
		t.questions.Add(-1)
	}
	return &http.Response{StatusCode: http.StatusAccepted, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: http.NoBody, Request: r}
}

// resume asks for the rest of a response. What fails ends the request alone.
func (t *transport) resume(r *http.Request, ex *exchange) (*http.Response, error) {
	n := ex.resume(r.Header.Get("Last-Event-Id"))
	if n > maxResumes {
		return ended(r, ex), nil
	}
	resp, err := t.base.RoundTrip(ex.traced(r))
	switch {
	case err != nil && n < maxResumes:
		return nil, err // the SDK tries again
	case err != nil:
		return ended(r, ex), nil
	case !isGood(resp) || !isEvents(resp):
		_ = resp.Body.Close()
		return ended(r, ex), nil
	}
	return t.noted(resp, ex), nil
}

// ended is a response with events that has none but the end of a request.
func ended(r *http.Request, ex *exchange) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body:   io.NopCloser(strings.NewReader("data: " + string(ex.unanswered()) + "\n\n"))}
}

// noted is the response to a noted request, of which no more is read than it may have.
func (t *transport) noted(resp *http.Response, ex *exchange) *http.Response {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	const asJSON = "application/json"
	b := &whole{of: t, limited: limited{body: resp.Body, left: t.maxMessage, ex: ex}}
	switch {
	case resp.StatusCode == http.StatusNotFound && resp.Request.Header.Get("Mcp-Session-Id") != "":
		resp.Body = &b.limited // the SDK ends the session
		return resp
	case isGood(resp) && isEvents(resp):
		resp.Body = &events{of: t, body: resp.Body, in: bufio.NewReader(resp.Body), most: t.maxMessage,
			total: maxStreamSize * t.maxMessage, ex: ex}
		return resp
	case !isGood(resp):
		b.left, b.lenient = maxErrorBody, true
	case resp.StatusCode == http.StatusAccepted, resp.StatusCode == http.StatusNoContent:
		b.left = 0
	case kind != asJSON:
		ex.refuse(violates("the MCP server's response has the content type %q, and not application/json or "+
			"text/event-stream",
			upstream.Clip(kind, maxName)))
		b.left = 0
	}
	resp.StatusCode, resp.ContentLength, resp.Body = http.StatusOK, -1, b
	resp.Header.Set("Content-Type", asJSON)
	resp.Header.Del("Content-Length")
	return resp
}

func isGood(resp *http.Response) bool { return resp.StatusCode >= 200 && resp.StatusCode <= 299 }

func isEvents(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind == "text/event-stream"
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
