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
	Protocol call.Protocol    // of the call, or of the HTTP request that a front door makes it for
	Revision call.Revision    // of MCP, for a request over it
	Unix     bool             // the client is connected to a Unix domain socket
}

// ClientDetails describes the client of a call before the response starts.
type ClientDetails struct {
	Peer  *tenant.Peer // from the certificate of the connection; nil means none
	Told  bool         // a trusted proxy named the client, and forwards the next fields
	Proto string
	Host  string
	Port  string
	// Drawn is the front doors' sampling decision for a new trace; the zero TraceID means not sampled, nil means
	// undecided.
	Drawn *telemetry.TraceID
}

// Tell sends the backend what a trusted proxy said about the client at an address. Headers of clients themselves are
// never forwarded.
func (d *ClientDetails) Tell(s Headers, address string) {
	if !d.Told {
		return
	}
	for _, h := range [...]struct{ name, value string }{
		{clientaddr.XForwardedFor, address},
		{clientaddr.XForwardedProto, d.Proto},
		{clientaddr.XForwardedHost, d.Host},
		{clientaddr.XForwardedPort, d.Port},
	} {
		if h.value != "" {
			s.SetHeader(h.name, h.value)
		}
	}
}
