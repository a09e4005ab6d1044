package forward

import (
	"strings"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/assertion"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Signer signs assertions. *assertion.Signer implements it.
type Signer interface {
	// Ready reports whether Sign has a key.
	Ready() bool
	Sign(audience string, caller *assertion.Caller) (string, error)
}

// assert adds the assertion of the caller to the request, if the fleet wants assertions. Code in the process that
// stands for a backend receives the caller, and signs each of its requests.
func (f Filter) assert(c *filter.Call) *call.Refusal {
	audience := c.Fleet.Audience(c.Endpoint.Addr)
	if audience == "" {
		return nil
	}
	if f.signer == nil || !f.signer.Ready() {
		return unsigned
	}
	caller := callerOf(c)
	if UpstreamOf(c.Endpoint).Local() {
		c.Stream.SetHeader(filter.CallerHeader, caller.Encode())
		return nil
	}
	signed, err := f.signer.Sign(audience, caller)
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
	caller := &assertion.Caller{Tenant: c.Info.Tenant, UID: c.Principal.UID(), User: c.Info.User, Agent: c.Info.Agent,
		RequestID: c.RequestID}
	if c.Principal.Operator {
		caller.Operator = strings.TrimPrefix(c.Info.Key, tenant.OperatorKey)
		return caller
	}
	caller.Credential = c.Info.Key
	at := c.Client.At
	caller.Verified = c.Info.Key != "" || c.Principal.Person != nil || at != nil && at.User != ""
	return caller
}

// unsigned rejects a call whose backend would receive no assertion.
var unsigned = &call.Refusal{Kind: call.Unavailable, Reason: "ASSERTION_UNAVAILABLE", RetryAfter: filter.RetryLater,
	Message: "the gateway cannot sign an assertion of the caller: it has not read its key yet; retry the call"}
