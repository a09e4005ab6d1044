package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
)

// readBody reads the whole body, which is charged to its tenant meanwhile.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request, m *message) error {
	if r.ContentLength > h.cfg.MaxBody {
		return h.tooLarge()
	}
	in := r.Body
	if r.ContentLength < 0 { // otherwise the server ends the body after that length
		in = http.MaxBytesReader(w, in, h.cfg.MaxBody)
	}
	m.memory = h.memories.take()
	m.body = slices.Grow(m.memory.body, int(max(min(r.ContentLength, maxRetained), bytes.MinRead)))
	in = m.held.Reader(bodybudget.StallTimeout(w, in, h.cfg.Stall), copies*r.ContentLength)
	err := m.readAll(in, r.ContentLength)
	m.memory.body = m.body
	if err == nil {
		return nil
	}
	var large *http.MaxBytesError
	switch _, own := status.FromError(err); {
	case errors.As(err, &large):
		return h.tooLarge()
	case own:
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refused(http.StatusRequestTimeout, jsonrpc.CodeInvalidRequest, "BODY_STALLED",
			"the body did not arrive in time")
	}
	return refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "INVALID_BODY", "the body could not be read")
}

// readAll reads a body of length bytes; negative means to its end.
func (m *message) readAll(in io.Reader, length int64) error {
	for int64(len(m.body)) != length {
		if len(m.body) == cap(m.body) {
			m.body = slices.Grow(m.body, len(m.body))
		}
		room := m.body[len(m.body):cap(m.body)]
		if length >= 0 {
			room = room[:min(int64(len(room)), length-int64(len(m.body)))]
		}
		n, err := in.Read(room)
		m.body = m.body[:len(m.body)+n]
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

func (h *Handler) tooLarge() error {
	return refused(http.StatusRequestEntityTooLarge, jsonrpc.CodeInvalidRequest, "BODY_TOO_LARGE",
		fmt.Sprintf("the message is larger than %d bytes; upload large inputs as files (docs/use/files.md)",
			h.cfg.MaxBody))
}

const (
	shortBody = 64 << 10 // bytes of a body whose values are not charged while they are only found
	foundCost = 32       // bytes of a value that is found: strictjson has 16 in a list that grows
)
