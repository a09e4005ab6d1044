package recent

import (
	"time"

	"github.com/capgate/capgate/internal/telemetry"
)

// Call is a call that has ended. Its names are callers': valid UTF-8 of bounded length, and otherwise anything.
type Call struct {
	ID         string        `json:"i"`
	Ended      time.Time     `json:"t"`
	Replica    string        `json:"r"`
	RequestID  string        `json:"q,omitempty"`
	Listener   string        `json:"l,omitempty"`
	Tenant     string        `json:"o,omitempty"`
	User       string        `json:"u,omitempty"`
	Agent      string        `json:"a,omitempty"`
	Key        string        `json:"k,omitempty"`
	Capability string        `json:"c,omitempty"`
	Tool       string        `json:"n,omitempty"`
	Method     string        `json:"m,omitempty"`
	Dialect    string        `json:"d,omitempty"`
	Code       string        `json:"x"`
	Reason     string        `json:"w,omitempty"`
	Failure    string        `json:"f,omitempty"`
	Outcome    string        `json:"y,omitempty"`
	Took       time.Duration `json:"e"`
	Backend    string        `json:"b,omitempty"`
	Attempts   int           `json:"h,omitempty"`
	BytesIn    int64         `json:"bi,omitempty"`
	BytesOut   int64         `json:"bo,omitempty"`
	Trace      string        `json:"tr,omitempty"` // 32 hexadecimal digits; "": none
	Traced     bool          `json:"ts,omitempty"` // its spans are exported
	Verdict    string        `json:"v,omitempty"`  // "": nothing decided
	Level      string        `json:"vl,omitempty"`
	Candidate  string        `json:"vc,omitempty"` // what the candidates say, if they differ
	Approval   string        `json:"p,omitempty"`
	Shadowed   string        `json:"s,omitempty"` // the shadow limit that would have refused it
	Replayed   bool          `json:"z,omitempty"`
}

// Failed reports whether the call was refused, or failed otherwise.
func (c *Call) Failed() bool { return c.Code != "OK" }

// unsuccessful reports whether the tool answered with an error, or not completely.
func (c *Call) unsuccessful() bool {
	return c.Outcome != "" && c.Outcome != telemetry.Succeeded.String()
}

// Bound reports whether a call that another replica has written is one, and cuts its texts.
func (c *Call) Bound() bool {
	for _, text := range []*string{&c.ID, &c.Replica, &c.RequestID, &c.Listener, &c.Tenant, &c.User, &c.Agent, &c.Key,
		&c.Capability, &c.Tool, &c.Method, &c.Dialect, &c.Code, &c.Reason, &c.Failure, &c.Outcome, &c.Backend, &c.Trace,
		&c.Verdict, &c.Level, &c.Candidate, &c.Approval, &c.Shadowed} {
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
