package telemetry

import "github.com/capgate/capgate/internal/call"

// Summary has what is said of a finished call in words. It is the one description of the call, which the access log,
// the audit log, the list of recent calls and the trace render, each with its own names and bounds. Most texts come
// from callers and have any length and content. They share memory with the call.
//
// The list of recent calls stores it in JSON.
type Summary struct {
	RequestID  string `json:"q,omitempty"`
	Listener   string `json:"l,omitempty"` // where the call came in; "" for the public port
	Tenant     string `json:"o,omitempty"`
	User       string `json:"u,omitempty"` // on whose behalf the call was made
	Agent      string `json:"a,omitempty"` // that made the call
	Key        string `json:"k,omitempty"` // id of the API key
	Capability string `json:"c,omitempty"` // routing key
	Tool       string `json:"n,omitempty"`
	Method     string `json:"m,omitempty"` // name of a call.Method
	Path       string `json:"-"`           // without a query; "" unless Method is Other
	Dialect    string `json:"d,omitempty"` // of the caller; "" if it is unknown
	Code       string `json:"x"`           // name of a gRPC code
	Reason     string `json:"w,omitempty"` // of the gateway's rejection
	Failure    string `json:"f,omitempty"` // by which the relay ended the call
	Outcome    string `json:"y,omitempty"` // of the tool; "" if it is unknown
	Backend    string `json:"b,omitempty"` // address; "" if the call was not forwarded
	Verdict    string `json:"v,omitempty"` // of the policy; "" if there was no decision
	Level      string `json:"vl,omitempty"`
	Candidate  string `json:"vc,omitempty"` // verdict of the candidate rules, if they differ
	Approval   string `json:"p,omitempty"`  // id of the approval that the call used or lacks
	Shadowed   string `json:"s,omitempty"`  // the shadow limit that would have rejected the call
}

// Summary returns the call in words. It is made once: the record must not change afterwards.
func (rec *Record) Summary() *Summary {
	c, d, s := rec.Call, &rec.Decision, &rec.summary
	if rec.summarized {
		return s
	}
	rec.summarized = true
	*s = Summary{
		RequestID: rec.RequestID, Listener: rec.Listener, Tenant: c.Tenant, User: c.User, Agent: c.Agent, Key: c.Key,
		Capability: c.Capability, Tool: c.Tool, Method: c.Method.String(), Code: CodeName(rec.Code), Reason: rec.Reason,
		Failure: rec.Failure, Outcome: outcomeNames[min(rec.Outcome, numOutcomes-1)], Backend: rec.Backend,
		Approval: d.Approval, Shadowed: rec.Shadowed,
	}
	if c.Method == call.Other {
		s.Path = call.WithoutQuery(c.Path)
	}
	if c.Dialect != call.Auto {
		s.Dialect = c.Dialect.String()
	}
	if d.Made {
		s.Verdict, s.Level = d.Verdict.String(), d.Level.String()
		if d.Differs {
			s.Candidate = d.Candidate.String()
		}
	}
	return s
}
