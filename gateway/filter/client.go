package filter

import (
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
)

// Client is where a call comes from.
type Client struct {
	Address  string           // IP address; "" where it is not known
	At       *tenant.Listener // where it came in; nil means the public port, or the process itself
	Peer     *tenant.Peer     // of the connection's certificate; nil means none
	Protocol call.Protocol    // of the call, or of the request that a front door makes it for
	Told     bool             // by a trusted proxy, which also says what the client asked it for:
	Proto    string
	Host     string
	Port     string
	// the front doors' decision on a new trace, zero being none; nil means nothing is decided
	Drawn *telemetry.TraceID
}

// Tell writes for the backend what a trusted proxy said. It is the last word on these headers: what clients say of
// them goes no further.
func (o *Client) Tell(s Headers) {
	if !o.Told {
		return
	}
	for _, h := range [...]struct{ name, value string }{
		{clientaddr.XForwardedFor, o.Address},
		{clientaddr.XForwardedProto, o.Proto},
		{clientaddr.XForwardedHost, o.Host},
		{clientaddr.XForwardedPort, o.Port},
	} {
		if h.value != "" {
			s.SetHeader(h.name, h.value)
		}
	}
}
