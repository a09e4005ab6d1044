package connect

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"connectrpc.com/connect"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/frontdoor/unary"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// directCalls are the calls that bypass connect-go and the gRPC client, which together cost more than the call.
//
//nolint:gochecknoglobals // memory, shared by all calls
var directCalls = sync.Pool{New: func() any { return new(unary.Call) }}

// direct serves a short, uncompressed request for a unary method whose schema is known. Others are left to connect-go:
// direct then returns false, and has neither read nor written anything.
func (h *Handler) direct(w http.ResponseWriter, r *http.Request, t *target) bool {
	if h.cfg.Unary == nil || t.schema == nil || !isCommon(r) || r.ContentLength > int64(h.cfg.MaxMessage) {
		return false
	}
	c := directCalls.Get().(*unary.Call)
	defer func() {
		c.Clear()
		directCalls.Put(c)
	}()
	w.Header()["Accept-Encoding"] = gzipOnly
	if timeout, ok := h.Timeout(r); ok {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	err := c.Read(t.body, int(r.ContentLength))
	late := errors.Is(r.Context().Err(), context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
	if err != nil || late {
		code := connect.CodeInvalidArgument
		if late {
			code = connect.CodeDeadlineExceeded
		}
		h.refuse(w, r, t.unread(code))
		return true
	}
	if err := t.request(c, r.Header); err != nil {
		h.refuse(w, r, err)
		return true
	}
	c.Request = relay.Request{Path: t.path, Authority: t.authority, Header: c.Header, MaxMessage: h.cfg.MaxMessage}
	h.cfg.Unary(r.Context(), &c.Request, c.Message, &c.Response)
	if err := t.respond(w, r, c, h.cfg.MaxMessage); err != nil {
		_ = h.errors.Write(w, r, err) // an error means that the client has disconnected
	}
	return true
}

// isCommon reports whether a request is short and has no coding, and a type as clients write it.
func isCommon(r *http.Request) bool {
	typ := r.Header["Content-Type"]
	if len(typ) != 1 || r.ContentLength < 0 || r.ContentLength > unary.MaxBody {
		return false
	}
	switch typ[0] {
	case "application/proto", "application/json", "application/json; charset=utf-8":
		coding := r.Header.Get("Content-Encoding")
		return coding == "" || coding == "identity"
	}
	return false
}

// request sets the metadata and the message of a call.
func (t *target) request(c *unary.Call, from http.Header) error {
	err := eachMetadata(from, func(name, value string) {
		if localgrpc.Reserved(name) {
			return
		}
		if strings.HasSuffix(name, binary) {
			value = base64.RawStdEncoding.EncodeToString([]byte(value))
		}
		c.Add(name, value)
	})
	if err != nil {
		return err
	}
	m := message{c.Body}
	if err := t.decode(&m); err != nil {
		return err
	}
	c.Message = append(c.Begin(), m.data...)
	return nil
}

// respond writes the response to a call, with a message of at most most bytes. The error is that of the call, or of its
// response.
func (t *target) respond(w http.ResponseWriter, r *http.Request, c *unary.Call, most int) error {
	a := &c.Response
	data, err := localgrpc.Message(a, most)
	if err == nil && a.Compressed {
		err = request.HoldResult(r.Context(), len(data))
	}
	if err != nil {
		failed := errorOf(err)
		addFields(failed.Meta(), "", a.Header)
		addFields(failed.Meta(), "", a.Trailer)
		return failed
	}
	m := message{data}
	if err := said(t.encode(r.Context(), &m), call.Sent); err != nil {
		return err
	}
	head := w.Header()
	addFields(head, "", a.Header)
	addFields(head, "Trailer-", a.Trailer)
	head["Content-Type"] = r.Header["Content-Type"]
	if len(m.data) >= compressFrom && acceptsGzip(r.Header.Get("Accept-Encoding")) {
		if err := request.HoldResult(r.Context(), len(m.data)); err != nil {
			return errorOf(err)
		}
		m.data, head["Content-Encoding"] = compressed(m.data), gzipOnly
	}
	head["Content-Length"] = []string{strconv.Itoa(len(m.data))}
	_, _ = w.Write(m.data) // fails only if the client has disconnected
	return nil
}

var gzipOnly = []string{"gzip"} //nolint:gochecknoglobals // a constant

// acceptsGzip reports whether a client names gzip, as connect-go does: the protocol has no weights.
func acceptsGzip(accept string) bool {
	return slices.Contains(strings.FieldsFunc(accept, func(r rune) bool { return r == ',' || r == ' ' }), "gzip")
}

//nolint:gochecknoglobals // memory, shared by all calls
var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

func compressed(data []byte) []byte {
	var out bytes.Buffer
	z := gzipWriters.Get().(*gzip.Writer)
	z.Reset(&out)
	_, _ = z.Write(data) // to memory
	_ = z.Close()
	z.Reset(io.Discard)
	gzipWriters.Put(z)
	return out.Bytes()
}
