package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/capgate/capgate/gateway/frontdoor/request"
)

// batchVersion is the only revision with batches. It does not have the header with the revision.
const batchVersion = "2025-03-26"

const (
	maxBatch      = 32       // messages
	maxBatchReply = 16 << 20 // bytes of responses after which no further message is served
)

// readBatch reads the n messages of a batch.
func (m *message) readBatch(n int) error {
	if m.version != "" && m.version != batchVersion {
		return invalid("batches of messages are only supported in the revision " + batchVersion +
			"; send each message in a separate request")
	}
	if n == 0 || n > maxBatch {
		return invalid(fmt.Sprintf("a batch must have 1 to %d messages", maxBatch))
	}
	return json.Unmarshal(m.body, &m.batch)
}

// serveBatch serves the messages of a batch one after the other, and responds with the array of their responses. If
// they take long, each is an event (2025-03-26, Streamable HTTP, "Sending Messages to the Server").
func (h *Handler) serveBatch(w http.ResponseWriter, r *http.Request, m *message) {
	ctx, leave := context.WithCancel(r.Context())
	defer leave()
	out, alive := eventsTo(w), (*heartbeat)(nil)
	if m.mayStream {
		alive = keepAlive(out, h.cfg.Beat, leave)
		defer alive.stop()
	}
	all := h.answers(r.WithContext(ctx), m)
	switch alive.stop(); {
	case out.Begun():
		for _, answer := range all {
			_ = out.text(answer) // the client may have disconnected
		}
	case len(all) == 0:
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("Content-Type", "application/json")
		writeArray(w, all)
	}
}

// writeArray writes JSON values as an array. Writes fail only if the client has disconnected.
func writeArray(w io.Writer, all [][]byte) {
	before := "["
	for _, value := range all {
		_, _ = io.WriteString(w, before)
		_, _ = w.Write(value)
		before = ","
	}
	_, _ = io.WriteString(w, "]")
}

// answers serves the messages of a batch, and returns their responses.
func (h *Handler) answers(r *http.Request, m *message) (all [][]byte) {
	size := 0
	for _, text := range m.batch {
		one, answer := &message{body: text, version: m.version, held: m.held},
			&captured{ctx: r.Context(), header: http.Header{}}
		switch err := one.parse(http.Header{}); { // without Accept, so that responses are not events
		case err != nil:
			h.refuse(answer, r, one, err)
		case one.method == "" && one.batch == nil:
			continue // a response, to which this revision has no requests
		case one.batch != nil || one.method == "initialize":
			h.refuse(answer, r, one, invalid("a batch must not contain batches or initialize"))
		case size > maxBatchReply:
			h.refuse(answer, r, one, invalid("the responses of the batch are too long; this message was not served"))
		default:
			h.serve(answer, r, one)
		}
		if one.id == nil && answer.status < http.StatusBadRequest || r.Context().Err() != nil {
			continue // a notification or a response
		}
		if answer.body.Len() > 0 && !json.Valid(answer.body.Bytes()) { // text, or events
			answer = &captured{ctx: r.Context(), header: http.Header{}}
			h.refuse(answer, r, one, invalid(
				"this message is not supported in a batch; send it in a separate request"))
		}
		if body := bytes.TrimSpace(answer.body.Bytes()); len(body) > 0 {
			all, size = append(all, body), size+len(body)
		}
	}
	return all
}

// captured is the response to a message of a batch.
type captured struct {
	ctx    context.Context //nolint:containedctx // of the batch, to which the response is charged
	header http.Header
	status int
	body   bytes.Buffer
	held   request.Growing
}

// batchCopies is the number of copies of a response in memory: its growing buffer, and the event.
const batchCopies = 3

// Header implements http.ResponseWriter, as the other methods do.
func (c *captured) Header() http.Header { return c.header }

func (c *captured) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
}

func (c *captured) Write(text []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	if err := c.held.Hold(c.ctx, batchCopies*(c.body.Len()+len(text))); err != nil {
		return 0, err
	}
	return c.body.Write(text)
}
