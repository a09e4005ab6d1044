package filter

import (
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
)

// Client describes the client of a call.
type Client struct {
	Address  string           // IP address; empty if unknown
	At       *tenant.Listener // listener; nil means the public port, or the process itself
	Peer     *tenant.Peer     // from the certificate of the connection; nil means none
	Protocol call.Protocol    // of the call, or of the HTTP request that a front door makes it for
	Revision call.Revision    // of MCP, for a request over it
	Unix     bool             // the client is connected to a Unix domain socket
	Told     bool             // a trusted proxy named the client, and forwards the fields below
	Proto    string
	Host     string
	Port     string
	// Drawn is the front doors' sampling decision for a new trace; the zero TraceID means not sampled, nil means
	// undecided.
	Drawn *telemetry.TraceID
}

// Tell sends the backend what a trusted proxy said about the client. Headers of clients themselves are never
// forwarded.
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
