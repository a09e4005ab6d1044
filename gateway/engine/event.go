package engine

import (
	"encoding/json"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/lib/strictproto"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
)

// Fields of PipelineEvent.
const (
	fieldEventSession  = 1
	fieldEventType     = 3
	fieldApproval      = 19
	fieldPipelineError = 21
)

// event is what the Guard reads of a PipelineEvent.
type event struct {
	session  string
	failed   bool // it is an ERROR
	last     bool // nothing of this message comes after it
	question *question
}

// question is an approval that an engine asks for.
type question struct {
	id    string // the engine's
	tool  string // what is to be done, ActionType's name
	args  []byte // JSON of all of it, for people: it may have secrets
	until time.Time
}

func eventOf(raw []byte) (e event, ok bool) {
	var asked []byte
	ok = fields(raw, &pipelineEvent, func(r *strictproto.Reader) {
		switch r.Number {
		case fieldEventSession:
			e.session = string(r.Value)
		case fieldEventType:
			e.failed = e.failed || r.Varint == uint64(parallaxpb.PipelineEventType_ERROR)
			e.last = e.last || r.Varint == uint64(parallaxpb.PipelineEventType_RESPONSE_COMPLETE)
		case fieldPipelineError:
			e.failed = true
		case fieldApproval:
			asked = r.Value
		}
	}) == nil
	e.last = e.last || e.failed
	if asked != nil && ok {
		e.question, ok = questionOf(asked)
	}
	return e, ok
}

// questionOf reads an ApprovalNeeded. One without an id can be answered by nobody, and is none.
func questionOf(msg []byte) (*question, bool) {
	var m parallaxpb.ApprovalNeeded
	if proto.Unmarshal(msg, &m) != nil {
		return nil, false
	}
	if m.GetApprovalId() == "" {
		return nil, true
	}
	q := &question{id: m.GetApprovalId(), tool: m.GetAction().GetType().String()}
	if at := m.GetTimeoutAt(); at > 0 {
		q.until = instant(at)
	}
	said, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(&m)
	if err == nil {
		q.args, err = json.Marshal(json.RawMessage(said)) // the same bytes for the same question: protojson varies its blanks
	}
	return q, err == nil
}

// instant is a time since 1970 in s, or in ms: which of the two the protocol does not say.
func instant(at int64) time.Time {
	const milliseconds = 1e11 // in s, the year 5138
	if at > milliseconds {
		return time.UnixMilli(at)
	}
	return time.Unix(at, 0)
}
