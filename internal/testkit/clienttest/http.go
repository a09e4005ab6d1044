package clienttest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// HTTP is a client with its own connections. httptest.Server.Close closes idle connections of http.DefaultClient,
// including those of other tests.
var HTTP = &http.Client{Transport: Bound(http.DefaultTransport.(*http.Transport).Clone())}

// Bound bounds the wait for a response, and each read of its body, by Patience. A stream of events as a whole has no
// bound. After the first timeout, requests to the same server fail at once, so that a test with many requests fails
// soon.
func Bound(next http.RoundTripper) http.RoundTripper { return transport{next, new(sync.Map)} }

type transport struct {
	next   http.RoundTripper
	silent *sync.Map // hosts with ports
}

// RoundTrip cancels a request without a response.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, silent := t.silent.Load(req.URL.Host); silent {
		return nil, fmt.Errorf("%s is not asked: an earlier wait for it lasted %v", req.URL.Path, Patience)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	b := &body{path: req.URL.Path, cancel: func(err error) {
		if err != nil {
			t.silent.Store(req.URL.Host, true)
		}
		cancel(err)
	}}
	timer := b.start("the response")
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	if err != nil {
		cancel(nil)
		return nil, err
	}
	b.ReadCloser, resp.Body = resp.Body, b
	return resp, nil
}

// CloseIdleConnections is called by http.Client.CloseIdleConnections.
func (t transport) CloseIdleConnections() {
	if idle, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
}

// body bounds each read.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
	path   string
}

func (b *body) start(what string) *time.Timer {
	return time.AfterFunc(Patience, func() {
		b.cancel(fmt.Errorf("the test waited %v for %s of %s", Patience, what, b.path))
	})
}

// Read cancels the request if no data arrives.
func (b *body) Read(p []byte) (int, error) {
	defer b.start("the body").Stop()
	return b.ReadCloser.Read(p)
}

// Close ends the request.
func (b *body) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// Send sends a request and returns the response and its body. header holds alternating names and values; a Host
// replaces that of the URL.
func Send(t testing.TB, client *http.Client, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	req.Host = req.Header.Get("Host")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %s, then %v", method, url, resp.Status, err)
	}
	return resp, string(text)
}
