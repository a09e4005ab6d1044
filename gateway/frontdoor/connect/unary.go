package connect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/frontdoor/unary"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

//nolint:gochecknoglobals // memory, shared by all calls
var unaryCalls = sync.Pool{New: func() any { return new(unary.Call) }}

func releaseCall(c *unary.Call) {
	c.Clear()
	unaryCalls.Put(c)
}

// serveUnary serves a request of Connect without envelopes.
func (h *Handler) serveUnary(w http.ResponseWriter, r *http.Request, t *target) {
	c := unaryCalls.Get().(*unary.Call)
	defer releaseCall(c)
	w.Header()["Accept-Encoding"] = gzipOnly
	msg, err := h.readUnary(c, r, t)
	if err != nil || isLate(r.Context(), nil) {
		t.refuse(w, r, t.unread(r.Context(), err))
		return
	}
	if err := t.request(c, r.Header, msg); err != nil {
		t.refuse(w, r, err)
		return
	}
	h.call(r.Context(), t, c)
	if failed := t.respond(w, r, c, h.cfg.MaxMessage); failed != nil {
		failed.writeUnary(w)
	}
}

// readUnary reads the body of a request without envelopes.
func (h *Handler) readUnary(c *unary.Call, r *http.Request, t *target) ([]byte, error) {
	if err := h.readBody(c, r, t); err != nil {
		return nil, err
	}
	if t.gzip {
		return inflate(c.Body, h.cfg.MaxMessage)
	}
	return c.Body, nil
}

func (h *Handler) readBody(c *unary.Call, r *http.Request, t *target) error {
	if n := r.ContentLength; n >= 0 && n <= unary.MaxBody && n <= int64(h.cfg.MaxMessage) {
		return c.Read(t.body, int(n))
	}
	all := bytes.NewBuffer(c.Body[:0])
	n, err := io.CopyN(all, t.body, int64(h.cfg.MaxMessage)+1)
	c.Body = all.Bytes()
	switch {
	case n > int64(h.cfg.MaxMessage):
		c.Body = nil // unread discards the rest
		return errTooLong
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// request sets the metadata and the message of a call.
func (t *target) request(c *unary.Call, from http.Header, msg []byte) error {
	if err := eachMetadata(from, c.Add); err != nil {
		return err
	}
	to := c.Begin()
	msg, err := t.decode(to, msg)
	if err != nil {
		msg = to[:cap(to)] // Clear overwrites what was decoded
	}
	c.Message = msg
	return err
}

func (h *Handler) call(ctx context.Context, t *target, c *unary.Call) {
	c.Request = relay.Request{Path: t.path, Authority: t.authority, Header: c.Header, MaxMessage: h.cfg.MaxMessage}
	h.calls.Unary(ctx, &c.Request, c.Message, &c.Response)
}

// result returns the message of the response to a call in the client's encoding, or the error of the call. JSON may
// use the memory of to. The message of a backend has at most most bytes.
func (t *target) result(ctx context.Context, to []byte, a *relay.Response, most int) ([]byte, error) {
	var held request.Growing
	msg, err := localgrpc.Message(a, most, func(n int) error { return held.Hold(ctx, n) })
	if err != nil {
		return nil, err
	}
	return t.encode(ctx, to, msg)
}

// respond writes the response to a call, or returns its error.
func (t *target) respond(w http.ResponseWriter, r *http.Request, c *unary.Call, most int) *failure {
	a := &c.Response
	clear(c.Body) // no longer needed
	msg, err := t.result(r.Context(), c.Body, a, most)
	if err == nil && t.json {
		c.Body = msg
	}
	if err == nil && t.packs && len(msg) >= compressFrom {
		err = request.HoldResult(r.Context(), len(msg))
	}
	if err != nil {
		failed := failureOf(err, call.Sent)
		failed.addFields(a.Header)
		failed.addFields(a.Trailer)
		return failed
	}
	head := w.Header()
	addFields(head, "", a.Header)
	addFields(head, "Trailer-", a.Trailer)
	head["Content-Type"] = []string{t.typ}
	if t.packs && len(msg) >= compressFrom {
		msg, head["Content-Encoding"] = compressed(msg), gzipOnly
	}
	head["Content-Length"] = []string{strconv.Itoa(len(msg))}
	_, _ = w.Write(msg) // fails only if the client has disconnected
	return nil
}

// serveWebUnary serves a request of gRPC-Web for a method without streams.
func (h *Handler) serveWebUnary(w http.ResponseWriter, r *http.Request, t *target) {
	c := unaryCalls.Get().(*unary.Call)
	defer releaseCall(c)
	msg, err := h.readOne(c, r, t)
	if err != nil || isLate(r.Context(), nil) {
		t.reject(w, r, t.unread(r.Context(), err))
		return
	}
	if err := t.request(c, r.Header, msg); err != nil {
		t.reject(w, r, err)
		return
	}
	h.call(r.Context(), t, c)
	_ = t.respondWeb(r.Context(), newReply(w, t), &c.Response, h.cfg.MaxMessage)
}

// readOne reads the only message of a request with envelopes. A short one of known length needs no further memory.
func (h *Handler) readOne(c *unary.Call, r *http.Request, t *target) ([]byte, error) {
	in := h.framesOf(t)
	if n := r.ContentLength; !t.gzip && n >= prefixLen && n <= unary.MaxBody {
		err := c.ReadAll(t.body, int(n))
		if err == nil && isOne(c.Body) && len(c.Body)-prefixLen <= h.cfg.MaxMessage {
			return c.Body[prefixLen:], nil
		}
		in.in = io.MultiReader(bytes.NewReader(c.Body), rest{t.body, err})
	}
	msg, err := in.next()
	if errors.Is(err, io.EOF) {
		return nil, errMissing
	}
	if err != nil {
		return nil, err
	}
	if _, err = in.next(); errors.Is(err, io.EOF) {
		return msg, nil
	}
	return nil, cmp.Or(err, errMalformed)
}

// respondWeb writes the response to a call. The error means that the client has disconnected.
func (t *target) respondWeb(ctx context.Context, a *reply, from *relay.Response, most int) error {
	msg, err := t.result(ctx, nil, from, most)
	if err == nil || len(from.Header) > 0 {
		a.begin(from.Header)
	}
	if err != nil {
		return a.end(failureOf(err, call.Sent), from.Trailer)
	}
	if err := a.message(msg); err != nil {
		return err
	}
	return a.end(nil, from.Trailer)
}
