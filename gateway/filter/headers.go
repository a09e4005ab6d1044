package filter

import "github.com/capgate/capgate/router"

// Metadata for routing and authorization.
const (
	CapabilityHeader = "x-capability-id"
	RequestIDHeader  = "x-request-id"
	SessionHeader    = "x-session-id" // of a call whose message names no session
	UserHeader       = "x-user-id"    // accepted as far as the credential may assert it

	// TenantHeader and OwnSessionHeader carry TenantKey, and OwnSession and SessionOwner with a space between them, to
	// code in the process that stands for a backend. Client headers of these names, and of RestHeader, are removed.
	TenantHeader     = "x-capgate-tenant"
	OwnSessionHeader = "x-capgate-own-session"
	// RestHeader is set for a call over MCP. The result of an MCP server then has all fields that the server sent
	// (localgrpc.SetRest).
	RestHeader = "x-capgate-rest"
	// CallerHeader carries the caller for the assertions of a fleet that requires them, see assertion.Decode. Client
	// headers of this name are removed.
	CallerHeader = "x-capgate-caller"
)

// RoutingKey returns everything in a call that names its capability. message is the capability in the first message;
// empty before it is read.
func (c *Call) RoutingKey(message string) router.Key {
	metadata, _ := c.Stream.Header(CapabilityHeader)
	k := router.Key{Metadata: metadata, Message: message, Authority: c.Stream.Authority(), Service: c.Service}
	if c.Client.At != nil {
		k.Listener = c.Client.At.Capability
	}
	return k
}
