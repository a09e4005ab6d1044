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
	fieldEventMessage  = 2
	fieldEventType     = 3
	fieldActionStarted = 14
	fieldApproval      = 19
	fieldPipelineError = 21
)

// event has the fields of a PipelineEvent that the Guard reads.
type event struct {
	session  string
	failed   bool // ERROR
	last     bool // the last event of the message
	question *question
	started  string // summary of ACTION_STARTED
	blank    bool   // only the ids of session and message: the engine asks a person elsewhere
}

// question is an engine's request for approval.
type question struct {
	id    string // id of the engine
	tool  string // name of the ActionType
	args  []byte // request as JSON, for people; may contain secrets
	until time.Time
}

func eventOf(raw []byte) (e event, ok bool) {
	var approval, started []byte
	var kind uint64
	content := false
	r := strictproto.Read(raw, &pipelineEvent)
	for r.Next() {
		switch r.Number {
		case fieldEventSession:
			e.session = string(r.Value)
		case fieldEventMessage:
		case fieldEventType:
			kind = r.Varint
		case fieldPipelineError:
			e.failed, content = true, true
		case fieldApproval:
			approval, content = r.Value, true
		case fieldActionStarted:
			started, content = r.Value, true
		default:
			content = true
		}
	}
	e.failed = e.failed || kind == uint64(parallaxpb.PipelineEventType_ERROR)
	e.last = e.failed || kind == uint64(parallaxpb.PipelineEventType_RESPONSE_COMPLETE)
	e.blank = kind == uint64(parallaxpb.PipelineEventType_PIPELINE_EVENT_UNSPECIFIED) && !content &&
		e.session != ""
	if ok = r.Err() == nil; !ok {
		return e, false
	}
	if summary, err := text(started, &actionStarted, 2); err == nil { // otherwise the action is not shown
		e.started = string(summary)
	}
	if approval != nil {
		e.question, ok = questionOf(approval)
	}
	return e, ok
}

// questionOf decodes an ApprovalNeeded. It returns nil for one without an id, which cannot be answered.
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
		q.until = timeOf(at)
	}
	said, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(&m)
	if err == nil {
		// deterministic bytes, because protojson varies its white space
		q.args, err = json.Marshal(json.RawMessage(said))
	}
	return q, err == nil
}

// timeOf converts a Unix time in seconds or milliseconds, because the protocol does not define the unit.
func timeOf(at int64) time.Time {
	const milliseconds = 1e11 // in seconds this is the year 5138
	if at > milliseconds {
		return time.UnixMilli(at)
	}
	return time.Unix(at, 0)
}
