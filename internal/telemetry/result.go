package telemetry

import (
	"time"

	"github.com/capgate/capgate/internal/call"
)

// Result is the result of a call, in the words that metrics, history and the console share. Each call has one.
type Result uint8

// The results.
const (
	Answered   Result = iota // a backend answered, and its tool reported no error
	ToolFailed               // the tool reported an error, or its answer was cut off
	Asked                    // not run yet, because it needs approval
	Refused                  // rejected by the gateway
	Failed                   // failed otherwise
	NumResults
)

var resultNames = [NumResults]string{"answered", "tool_error", "asked", "refused", "failed"}

func (r Result) String() string { return resultNames[min(r, NumResults-1)] }

// Result returns how the call ended.
func (rec *Record) Result() Result {
	switch {
	case call.Asked(rec.Reason):
		return Asked
	case rec.Reason != "":
		return Refused
	case rec.Code != 0:
		return Failed
	case rec.Outcome > Succeeded:
		return ToolFailed
	}
	return Answered
}

// Took returns the duration of the call without a person's time.
func (rec *Record) Took() time.Duration { return max(0, rec.Ended-rec.Held) }
