package mcp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/oauth"
	"github.com/capgate/capgate/internal/assertion"
	"github.com/capgate/capgate/internal/lib/httpclient"
	"github.com/capgate/capgate/internal/lib/tokenbucket"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

const (
	dialTimeout  = 5 * time.Second // of a connection
	maxIdle      = 64              // unused connections of one server
	maxHeader    = 64 << 10        // bytes of a response's headers
	maxErrorBody = 64 << 10        // bytes of a response with an error status
	maxNotice    = 64 << 10        // bytes of an unsolicited message
	// maxStreamSize is the maximum size of a response with the messages before it, in maximum messages.
	maxStreamSize = 4
	asideTimeout  = 5 * time.Second // of a message without a response
)

// transport is the HTTP client of one server. It adds the configured headers, follows no redirects, limits responses,
// and rejects ambiguous messages.
type transport struct {
	base       *http.Client
	tokens     *oauth.Transport // nil means that no request has an access token
	header     http.Header
	host       string // of requests; "": that of the URL
	assert     func(context.Context) (string, error)
	maxMessage int
	questions  atomic.Int32        // unanswered requests of the server
	notices    *tokenbucket.Bucket // see newPace
	updates    *tokenbucket.Bucket // see newSharedPace
	silent     atomic.Bool         // nothing more is sent
}

func newTransport(t *tls.Config, header http.Header, maxMessage int) *transport {
	assert := func(context.Context) (string, error) { return "", nil }
	base := httpclient.New(httpclient.Config{Name: "capgate-mcp", TLS: t,
		Dial: upstream.Dialer(dialTimeout).DialContext, Handshake: dialTimeout, MaxIdle: maxIdle, MaxHeader: maxHeader})
	return &transport{base: base, header: header, assert: assert, maxMessage: maxMessage, notices: newPace(),
		updates: newSharedPace()}
}

// secureFor returns TLS to a server of a fleet, whose certificate has the name of its host.
func secureFor(f *upstream.Fleet, url string) *tls.Config {
	host := f.Hosts[url]
	if host == "" || f.TLS == nil || f.TLS.ServerName != "" {
		return f.TLS
	}
	secure := f.TLS.Clone()
	secure.ServerName = host
	return secure
}

// hostFor returns the Host of requests to a server whose URL has an address in place of a name; "": that of the URL.
func hostFor(f *upstream.Fleet, server string) string {
	u, err := url.Parse(server)
	host := f.Hosts[server]
	if err != nil || host == "" || u.Port() == "" {
		return host
	}
	return net.JoinHostPort(host, u.Port())
}

// client returns the client of a session, whose round tripper ends in t.
func (t *transport) client(by http.RoundTripper) *http.Client {
	c := *t.base
	c.Transport = by
	return &c
}

// errSilent is the error of a request after the time to close has ended.
var errSilent = errors.New("the session ends here alone")

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.silent.Load() {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, errSilent
	}
	sent := headOf(r)
	ex := exchangeFor(r, sent)
	out := r.Clone(r.Context())
	if err := t.prepare(out, sent); err != nil {
		if ex != nil {
			ex.responded(nil, err)
		}
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	switch {
	case sent.Method == discover:
		return t.discover(out, ex)
	case ex == nil:
		return t.plain(out, sent)
	}
	return t.send(out, ex)
}

// prepare adds what the configuration of the fleet adds to a request.
func (t *transport) prepare(r *http.Request, sent head) error {
	r.Host = cmp.Or(t.host, r.Host)
	for name, values := range t.header {
		r.Header[name] = values
	}
	if trace := traceOf(r.Context()); trace != "" {
		r.Header.Set("Traceparent", trace)
	}
	return t.identify(r, sent)
}

// identify adds the assertion of the caller, if the fleet wants assertions. A request that ends a session, or answers
// one of the server, is the gateway's own: its context is that of the call that opened the session.
func (t *transport) identify(r *http.Request, sent head) error {
	ctx := r.Context()
	if r.Method == http.MethodDelete || sent.isAnswer() {
		ctx = upstream.WithoutCaller(ctx)
	}
	signed, err := t.assert(ctx)
	if err != nil {
		return err
	}
	if signed != "" {
		r.Header.Set(assertion.Header, signed)
	}
	return nil
}

// send sends a tracked request.
func (t *transport) send(r *http.Request, ex *exchange) (*http.Response, error) {
	if ex.task != "" && r.Header.Get("Mcp-Method") != "" { // the SDK does not know these methods
		r.Header.Set("Mcp-Name", ex.task)
	}
	ex.sending(r)
	resp, err := t.roundTrip(ex.traced(r))
	ex.responded(resp, err)
	if err != nil {
		return nil, err
	}
	t.note(r, resp)
	return t.noted(resp, ex), nil
}

// plain sends a request that is not tracked.
func (t *transport) plain(r *http.Request, sent head) (*http.Response, error) {
	if sent.isAside() {
		return t.aside(r, sent.isAnswer()), nil
	}
	pace := &paced{of: t.notices, ctx: r.Context()}
	if r.Method == http.MethodGet && pace.take(perStream) != nil { // a stream that ends is reopened
		return nil, r.Context().Err()
	}
	resp, err := t.roundTrip(r)
	if err != nil {
		return nil, err
	}
	t.note(r, resp)
	if r.Method == http.MethodPost && isRedirect(resp.StatusCode) {
		_ = resp.Body.Close()
		return nil, redirected(resp)
	}
	// any other response means that the server has no stream of notifications
	if r.Method == http.MethodGet && !isGood(resp) {
		resp.StatusCode = http.StatusMethodNotAllowed
	}
	id := string(sent.ID)
	if sent.Method == "subscriptions/listen" {
		id = "" // its response is the end of a stream
	}
	b := newEvents(t, r, resp, id)
	b.pace = pace
	switch {
	case !isGood(resp):
		resp.Body = &limited{body: resp.Body, left: maxErrorBody}
	case isEvents(resp) && r.Method == http.MethodGet:
		b.most = maxNotice
		resp.Body = b
	case isEvents(resp):
		resp.Body = b
	default:
		resp.Body = &whole{of: t, id: id, limited: limited{body: resp.Body, left: t.maxMessage}}
	}
	return resp, nil
}

// authenticate makes requests have access tokens.
func (t *transport) authenticate(c oauth.Config) {
	c.Host, c.Base = t.host, t.base.Transport
	t.tokens = oauth.New(c)
}

// roundTrip sends a request that has all headers but the access token. If there is no token that the server accepts, it
// returns a response with HTTP 401 and the reason, see note.
func (t *transport) roundTrip(r *http.Request) (*http.Response, error) {
	if t.tokens == nil {
		return t.base.Transport.RoundTrip(r)
	}
	resp, err := t.tokens.RoundTrip(r)
	if failed, is := errors.AsType[*oauth.Error](err); is {
		return &http.Response{StatusCode: http.StatusUnauthorized, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
			Body: unauthorized{http.NoBody, failed}, Request: r}, nil
	}
	return resp, err
}

// redirected returns the error of a redirect, for operators. A query could be secret.
func redirected(resp *http.Response) error {
	to, err := resp.Location()
	if err != nil {
		return fmt.Errorf("the MCP server redirects to no URL: HTTP %d", resp.StatusCode)
	}
	plain := url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}
	return fmt.Errorf("the MCP server redirects to %s: HTTP %d; no redirect is followed, so set the backend to its "+
		"final URL", untrusted.Clip(plain.String(), maxURL), resp.StatusCode)
}

// maxURL is the maximum length of a redirect's URL in an error, in bytes.
const maxURL = 200

// aside sends a message without a response. Its failure does not affect the session.
func (t *transport) aside(r *http.Request, answers bool) *http.Response {
	ctx, cancel := context.WithTimeout(r.Context(), asideTimeout)
	defer cancel()
	out, err := r.WithContext(ctx), error(nil)
	if answers {
		defer t.questions.Add(-1)
		out, err = answer(out)
	}
	if err == nil {
		var resp *http.Response
		if resp, err = t.roundTrip(out); err == nil {
			_ = resp.Body.Close()
		}
	}
	return &http.Response{StatusCode: http.StatusAccepted, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: http.NoBody, Request: r}
}

// noted returns the response to a tracked request, limited in size.
func (t *transport) noted(resp *http.Response, ex *exchange) *http.Response {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	const asJSON = "application/json"
	b := &whole{of: t, id: ex.id, limited: limited{body: resp.Body, left: t.maxMessage, ex: ex}}
	switch {
	case resp.StatusCode == http.StatusNotFound && resp.Request.Header.Get("Mcp-Session-Id") != "":
		resp.Body = &b.limited // the SDK ends the session
		return resp
	case isGood(resp) && isEvents(resp):
		e := newEvents(t, resp.Request, resp, ex.id)
		e.ex, e.total = ex, maxStreamSize*t.maxMessage
		resp.Body = e
		return resp
	case !isGood(resp):
		b.left, b.lenient = maxErrorBody, true
	case resp.StatusCode == http.StatusAccepted, resp.StatusCode == http.StatusNoContent:
		b.left = 0
	case kind != asJSON:
		ex.refuse(violates("the MCP server's response has the content type %q, and not application/json or "+
			"text/event-stream",
			untrusted.Clip(kind, maxName)))
		b.left = 0
	}
	resp.StatusCode, resp.ContentLength, resp.Body = http.StatusOK, -1, b
	resp.Header.Set("Content-Type", asJSON)
	resp.Header.Del("Content-Length")
	return resp
}

func isRedirect(code int) bool { return code/100 == 3 }

func isGood(resp *http.Response) bool { return resp.StatusCode >= 200 && resp.StatusCode <= 299 }

func isEvents(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind == "text/event-stream"
}

type traceKey struct{}

// withTrace returns a context whose requests carry a W3C traceparent; empty means none.
func withTrace(ctx context.Context, parent string) context.Context {
	return context.WithValue(ctx, traceKey{}, parent)
}

func traceOf(ctx context.Context) string {
	parent, _ := ctx.Value(traceKey{}).(string)
	return parent
}
