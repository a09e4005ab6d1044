package mcp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"
)

// discover is the method with which a client begins since 2026-07-28.
const discover = "server/discover"

// discoverTimeout bounds how long a server may take to answer it: an older one may say nothing to a method that it
// does not know.
const discoverTimeout = 5 * time.Second

// discover sends server/discover. A response of HTTP without one of JSON-RPC, or none in time, is HTTP 404 for the
// SDK, which goes on with initialize.
func (t *transport) discover(r *http.Request, ex *exchange) (*http.Response, error) {
	timeout := discoverTimeout
	if deadline, ok := r.Context().Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)*2/3)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	var resp *http.Response
	var err error
	if out := r.WithContext(ctx); ex != nil {
		resp, err = t.send(out, ex)
	} else {
		resp, err = t.plain(out, headOf(r))
	}
	switch {
	case err != nil && (ctx.Err() == nil || r.Context().Err() != nil):
		return nil, err
	case err != nil:
		resp = &http.Response{ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: r}
	}
	defer func(body io.Closer) { _ = body.Close() }(resp.Body)
	text := answerIn(resp)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	switch {
	case len(text) == 0 && (resp.StatusCode == 0 || isGood(resp)):
		resp.StatusCode = http.StatusNotFound
	case isGood(resp):
		resp.Header.Set("Content-Type", "application/json")
	}
	return resp, nil
}

// answerIn reads a response to the end of its message; nil means none.
func answerIn(resp *http.Response) []byte {
	switch body := resp.Body.(type) {
	case *events:
		for body.answer == nil {
			if _, err := body.next(); err != nil {
				return nil
			}
		}
		return body.answer
	case *whole:
		text, err := body.message()
		if err != nil {
			return nil
		}
		return text
	}
	text, _ := io.ReadAll(resp.Body) // is as much as there is
	return text
}
