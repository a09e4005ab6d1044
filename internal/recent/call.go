package recent

import (
	"time"

	"github.com/capgate/capgate/internal/telemetry"
)

// Call is a call that has ended. Its names are callers': valid UTF-8 of bounded length, and otherwise anything.
type Call struct {
	ID      string    `json:"i"`
	Ended   time.Time `json:"t"`
	Replica string    `json:"r"`
	telemetry.Summary
	Took     time.Duration `json:"e"`
	Attempts int           `json:"h,omitempty"`
	BytesIn  int64         `json:"bi,omitempty"`
	BytesOut int64         `json:"bo,omitempty"`
	Trace    string        `json:"tr,omitempty"` // 32 hexadecimal digits; "" means none
	Traced   bool          `json:"ts,omitempty"` // its spans are exported
	Replayed bool          `json:"z,omitempty"`
}

// Failed reports whether the call was refused, or failed otherwise.
func (c *Call) Failed() bool { return c.Code != "OK" }

// unsuccessful reports whether the tool answered with an error, or not completely.
func (c *Call) unsuccessful() bool {
	return c.Outcome != "" && c.Outcome != telemetry.Succeeded.String()
}

// numTexts is the number of the texts of a call that are stored.
const numTexts = 20

// texts returns the texts of a call that are stored. The first one is its tenant.
func texts(s *telemetry.Summary) [numTexts]*string {
	return [...]*string{&s.Tenant, &s.RequestID, &s.Listener, &s.User, &s.Agent, &s.Key, &s.Capability, &s.Tool,
		&s.Method, &s.Dialect, &s.Code, &s.Reason, &s.Failure, &s.Outcome, &s.Backend, &s.Verdict, &s.Level,
		&s.Candidate, &s.Approval, &s.Shadowed}
}

// Bound reports whether a call that another replica has written is one, and cuts its texts.
func (c *Call) Bound() bool {
	c.ID, c.Replica, c.Trace = cut(c.ID), cut(c.Replica), cut(c.Trace)
	for _, text := range texts(&c.Summary) {
		*text = cut(*text)
	}
	return c.ID != "" && c.Code != "" && !c.Ended.IsZero()
}

// Flow returns the flow of a call: the calls of the same tenant with the same kind of end.
func (c *Call) Flow() string {
	if c.Failed() {
		return "-" + c.Tenant
	}
	return "+" + c.Tenant
}
