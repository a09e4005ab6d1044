package forward

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/assertion"
	"github.com/capgate/capgate/internal/call"
)

// assert tells the backend who the caller is, if its fleet wants that. Code in the process that stands for a backend
// receives the caller, and signs each of its requests.
func (f Filter) assert(c *filter.Call) *call.Refusal {
	audience := c.Fleet.Audience(c.Endpoint.Addr)
	if audience == "" {
		return nil
	}
	caller := callerOf(c)
	if UpstreamOf(c.Endpoint).Local() {
		c.Stream.SetHeader(filter.CallerHeader, caller.Encode())
		return nil
	}
	if f.sign == nil {
		return unsigned
	}
	signed, err := f.sign(audience, caller)
	if err != nil {
		return unsigned
	}
	c.Stream.SetHeader(assertion.Header, signed)
	return nil
}

// callerOf returns the caller of a call.
func callerOf(c *filter.Call) *assertion.Caller {
	if c.Own {
		return &assertion.Caller{Gateway: true}
	}
	at := c.Client.At
	return &assertion.Caller{
		Verified: c.Info.Key != "" || c.Principal.Person != nil || at != nil && (at.Tenant != "" || at.User != ""),
		Tenant:   c.Info.Tenant, UID: c.Principal.UID(), User: c.Info.User, Agent: c.Info.Agent,
		Credential: c.Info.Key, RequestID: c.RequestID,
	}
}

// unsigned rejects a call whose backend would receive no assertion.
var unsigned = &call.Refusal{Kind: call.Unavailable, Reason: "ASSERTION_UNAVAILABLE", RetryAfter: filter.RetryLater,
	Message: "the gateway cannot sign who the caller is, as it has not read the key yet; retry the call"}
