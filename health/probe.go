package health

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/buildinfo"
	"github.com/capgate/capgate/internal/lib/grpcerror"
	"github.com/capgate/capgate/internal/lib/untrusted"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const (
	docPath    = "/selu.capability.Capability/Healthcheck"
	livePath   = "/selu.capability.v1.Capability/Healthcheck"
	legacyPath = "/selu.capability.v1.CapabilityService/HealthCheck" // capital C
	grpcPath   = "/grpc.health.v1.Health/Check"

	maxReply  = 64 << 10 // bytes of a health reply; more is a failed probe
	maxReason = 200      // bytes kept of a backend's own reason
)

// Result is the outcome of one probe.
type Result struct {
	OK       bool
	Answered bool         // the backend responded, ready or not
	Refused  bool         // the connection was refused: the port is closed
	Dialect  call.Dialect // the one that answered or is configured; Auto: unknown
	Reason   string       // at most a few hundred bytes

	Unresolved bool // the host name does not exist
}

// client probes one backend. It is used by one goroutine at a time.
type client struct {
	addr     string
	tls      *tls.Config // nil: cleartext
	host     string      // ServerName where tls has none; "": the address' host
	dial     func(context.Context, string) (net.Conn, error)
	question Question     // nil: Healthcheck, else grpc.health.v1
	services []string     // besides those of capabilities
	dialect  call.Dialect // configured; Auto: detected
	detected call.Dialect // the result of the last detection; Auto: none yet

	conn   *grpc.ClientConn      // nil: none, or the last one failed
	listed bool                  // conn's server reflection was asked
	other  string                // why the backend cannot serve a capability, by reflection
	dialed atomic.Pointer[error] // the result of conn's last dial; nil: none has ended; set on conn's goroutines
}

// probe queries the backend once. The context bounds the connection too.
func (c *client) probe(ctx context.Context) Result {
	if direct, ok := c.question.(Direct); ok {
		r := direct.ProbeAddr(ctx, c.addr)
		r.Dialect, r.Reason = c.known(), clip(r.Reason)
		return r
	}
	if c.conn == nil {
		conn, err := c.connect()
		if err != nil {
			return Result{Dialect: c.known(), Reason: clip(err.Error())}
		}
		c.conn = conn
	}
	r, err := c.probeOnce(ctx)
	r.Answered = err == nil
	if err != nil {
		r = c.failed(ctx, err)
		r.Answered = grpcerror.Answered(err)
		// A failed channel is closed: grpc-go's backoff before the next dial (up to two minutes)
		// would hide that the backend has come back, and a connection into a black hole would be
		// used again and again.
		c.close()
	}
	r.Dialect = c.known()
	return r
}

// failed returns the result of a call without a usable reply.
func (c *client) failed(ctx context.Context, err error) Result {
	r := Result{Reason: clip(grpcerror.Explain(err))}
	dialed := c.dialed.Load()
	if dialed == nil {
		return r
	}
	if *dialed == nil && grpcerror.NoHTTP2(err) {
		if words := c.protocol(ctx); words != "" {
			r.Reason = clip(WrongService(words, ""))
		}
		return r
	}
	var unknown *net.DNSError
	switch {
	case errors.Is(*dialed, syscall.ECONNREFUSED):
		r.Refused = true
	case errors.As(*dialed, &unknown) && unknown.IsNotFound:
		r.Unresolved, r.Reason = true, unresolved
	}
	return r
}

// probeOnce makes the configured kind of probe. For a capability it tries the health calls until one is
// implemented. The error is that of a call without a usable reply.
func (c *client) probeOnce(ctx context.Context) (Result, error) {
	if c.question != nil {
		return c.askQuestion(ctx)
	}
	for _, d := range c.candidates() {
		r, err := c.askCapability(ctx, d)
		if err == nil {
			c.detected = d
			return r, nil
		}
		if !grpcerror.Unimplemented(err) {
			return Result{}, err
		}
	}
	r, err := c.askGRPC(ctx)
	if err == nil {
		c.detected = call.Auto
	}
	if err == nil && r.OK {
		if words := c.misfit(ctx); words != "" {
			r = Result{Reason: clip(WrongService(words, ""))}
		}
	}
	return r, err
}

// candidates lists the dialects to try, the likeliest first. A detected dialect comes first. If the
// backend was replaced by one with another dialect, the rest detect that in the same probe.
func (c *client) candidates() []call.Dialect {
	switch {
	case c.dialect != call.Auto:
		return []call.Dialect{c.dialect}
	case c.detected == call.Live:
		return []call.Dialect{call.Live, call.Doc, call.Legacy}
	case c.detected == call.Legacy:
		return []call.Dialect{call.Legacy, call.Doc, call.Live}
	default:
		return []call.Dialect{call.Doc, call.Live, call.Legacy}
	}
}

// known returns the configured dialect, or else the detected one.
func (c *client) known() call.Dialect {
	if c.dialect != call.Auto {
		return c.dialect
	}
	return c.detected
}

// askCapability calls Healthcheck in dialect d. The dialects differ in the path only: the
// health messages of doc and live have the same bytes, and legacy has only the first field,
// under another name.
func (c *client) askCapability(ctx context.Context, d call.Dialect) (Result, error) {
	path := docPath
	switch d {
	case call.Live:
		path = livePath
	case call.Legacy:
		path = legacyPath
	}
	var reply docpb.HealthResponse
	if err := c.conn.Invoke(ctx, path, &docpb.HealthRequest{}, &reply); err != nil {
		return Result{}, err
	}
	reason := reply.GetMessage()
	if reason == "" && !reply.GetReady() {
		reason = "the backend reports that it is not ready"
	}
	return Result{OK: reply.GetReady(), Reason: clip(reason)}, nil
}

// askGRPC calls the standard health service. A backend without it, or without the
// whole-server name "", has at least replied.
func (c *client) askGRPC(ctx context.Context) (Result, error) {
	var reply healthpb.HealthCheckResponse
	err := c.conn.Invoke(ctx, grpcPath, &healthpb.HealthCheckRequest{}, &reply)
	switch code := status.Code(err); {
	case code == codes.OK:
		serving := reply.GetStatus() == healthpb.HealthCheckResponse_SERVING
		return Result{OK: serving, Reason: "grpc.health.v1: " + reply.GetStatus().String()}, nil
	case grpcerror.Unimplemented(err), code == codes.NotFound:
		return Result{OK: true, Reason: "connected; the backend implements no health call"}, nil
	default:
		return Result{}, err
	}
}

// connect makes a channel to the backend.
func (c *client) connect() (*grpc.ClientConn, error) {
	c.dialed.Store(nil)
	creds := insecure.NewCredentials()
	if c.tls != nil {
		secure := c.tls
		if secure.ServerName == "" && c.host != "" {
			secure = secure.Clone()
			secure.ServerName = c.host
		}
		creds = credentials.NewTLS(secure)
	}
	// With passthrough and a custom dialer, the name is resolved at each dial, in the same way as for
	// calls, and HTTP_PROXY has no effect.
	return grpc.NewClient("passthrough:///"+c.addr,
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			nc, err := c.dial(ctx, addr)
			c.dialed.Store(&err)
			return nc, err
		}),
		grpc.WithUserAgent(buildinfo.UserAgent("capgate-health")),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0),
		grpc.WithReadBufferSize(4<<10),
		grpc.WithWriteBufferSize(4<<10),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)))
}

// close closes the channel, if there is one.
func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close() // the only error is "already closed"
		c.conn, c.listed = nil, false
	}
}

// clip bounds the text that a backend can put into logs and snapshots.
func clip(s string) string { return untrusted.Clip(s, maxReason) }
