package rest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/stream"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
)

// Events of a stream's records.
const (
	recordChunk = "chunk"
	recordDone  = "done"
	recordError = "error"
)

// records writes the records of one stream.
type records struct {
	form form
	out  *stream.Writer
	id   int // of the last record
}

func (h *Handler) recordsTo(w http.ResponseWriter, f form) *records {
	return &records{form: f, out: &stream.Writer{Out: bodybudget.WriteTimeout(w, h.cfg.Stall), Type: f.contentType(),
		Cache: "no-cache, no-transform"}}
}

func (r *records) record(event string, members []byte) error {
	r.id++
	return r.out.Send(r.form.record(event, r.id, members))
}

func (r *records) problem(event string, p problem.Problem) error {
	text, err := plainjson.Marshal(p)
	if err != nil {
		return err
	}
	return r.record(event, append([]byte(`"problem":`), text...))
}

func (r *records) beat() error { return r.out.Send(r.form.beat(r.out.Begun())) }

// form is the encoding of a response.
type form uint8

// Forms.
const (
	whole  form = iota // not streamed
	events             // server-sent events (WHATWG HTML §9.2)
	lines              // one JSON record per line
)

func (f form) contentType() string {
	switch f {
	case events:
		return stream.Events
	case lines:
		return stream.Lines
	}
	return "application/json"
}

// record returns one record. members are those of its JSON object besides event and id, without the braces and without
// line breaks.
func (f form) record(event string, id int, members []byte) []byte {
	number := strconv.Itoa(id)
	b := make([]byte, 0, len(members)+64)
	if f != lines {
		return stream.Event(number, event, append(append(append(b, '{'), members...), '}'))
	}
	b = append(b, `{"event":"`+event+`","id":"`+number+`"`...)
	if len(members) > 0 {
		b = append(b, ',')
	}
	return append(append(b, members...), "}\n"...)
}

// beat returns a heartbeat of a stream. The first record of an event stream has an id, so that a client that loses the
// stream does not repeat the call.
func (f form) beat(begun bool) []byte {
	switch {
	case f == lines:
		return []byte(`{"event":"heartbeat"}` + "\n") // readers of lines may not expect an empty one
	case begun:
		return []byte(stream.Beat)
	}
	return []byte("id: 0\n" + stream.Beat)
}

// piece returns data as a member: JSON on one line, and anything else as base64.
func piece(data []byte) []byte {
	if !isText(data) {
		b := append(make([]byte, 0, base64.StdEncoding.EncodedLen(len(data))+20), `"data_base64":"`...)
		return append(base64.StdEncoding.AppendEncode(b, data), '"')
	}
	b := append(make([]byte, 0, len(data)+8), `"data":`...)
	from := len(b)
	b = append(b, bytes.Trim(data, " \t\r\n")...)
	for i, c := range b[from:] {
		if c == '\n' || c == '\r' { // between tokens, because strings contain none
			b[from+i] = ' '
		}
	}
	return b
}

// isText reports whether data is a JSON text.
func isText(data []byte) bool {
	// The first check is faster and stricter.
	return strictjson.Check(data) == nil || utf8.Valid(data) && json.Valid(data)
}
