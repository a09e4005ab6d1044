package mcp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"
)

// discover is the first method of clients since 2026-07-28.
const discover = "server/discover"

// discoverTimeout is the timeout of the response: an older server may not respond to an unknown method.
const discoverTimeout = 5 * time.Second

// discover sends server/discover. If the response is not JSON-RPC, or does not arrive in time, the SDK receives HTTP
// 404, and continues with initialize.
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
	text, _ := io.ReadAll(resp.Body) // a partial text is used on error
	return text
}
