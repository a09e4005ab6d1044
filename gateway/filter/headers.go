package filter

import "github.com/capgate/capgate/router"

// Metadata that calls are routed and decided by.
const (
	CapabilityHeader = "x-capability-id"
	RequestIDHeader  = "x-request-id"
	SessionHeader    = "x-session-id" // of a call whose message names none
	UserHeader       = "x-user-id"    // believed as far as the credential may assert it

	// TenantHeader and OwnSessionHeader have TenantKey and OwnSession of the call, for code in the process that stands
	// for a backend. A caller's headers of these names, and of RestHeader, are removed.
	TenantHeader     = "x-capgate-tenant"
	OwnSessionHeader = "x-capgate-own-session"
	// RestHeader is there for a call over MCP. An MCP server's result then has all that the server says
	// (localgrpc.SetRest).
	RestHeader = "x-capgate-rest"
)

// RoutingKey is everything in a call that names its capability. message is what the first message says, "" before it
// was read.
func (c *Call) RoutingKey(message string) router.Key {
	metadata, _ := c.Stream.Header(CapabilityHeader)
	k := router.Key{Metadata: metadata, Message: message, Authority: c.Stream.Authority(), Service: c.Info.Service}
	if c.Client.At != nil {
		k.Listener = c.Client.At.Capability
	}
	return k
}
