package health

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const (
	docPath    = "/selu.capability.Capability/Healthcheck"
	livePath   = "/selu.capability.v1.Capability/Healthcheck"
	legacyPath = "/selu.capability.v1.CapabilityService/HealthCheck" // capital C
	grpcPath   = "/grpc.health.v1.Health/Check"

	maxReply  = 64 << 10 // bytes of a health reply; more is a failed probe
	maxReason = 200      // bytes kept of what a backend says about itself
)

// Result is the outcome of one probe.
type Result struct {
	OK      bool
	Refused bool         // the connection was refused: nobody listens there
	Dialect call.Dialect // that answered, or is configured; Auto: not known
	Reason  string       // at most a few hundred bytes
}

// client probes one backend. It is used by one goroutine at a time.
type client struct {
	addr    string
	tls     *tls.Config // nil: cleartext
	host    string      // ServerName where tls has none; "": addr's
	dial    func(context.Context, string) (net.Conn, error)
	asks    Question
	dialect call.Dialect // configured; Auto: find out
	found   call.Dialect // what detection found last; Auto: nothing yet

	conn    *grpc.ClientConn // nil: none, or the last one failed
	refused atomic.Bool      // the last dial was; set on conn's goroutines
}

// probe asks the backend once how it is. The context bounds connecting too.
func (c *client) probe(ctx context.Context) Result {
	if c.conn == nil {
		conn, err := c.connect()
		if err != nil {
			return Result{Dialect: c.known(), Reason: clip(err.Error())}
		}
		c.conn = conn
	}
	r, err := c.ask(ctx)
	if err != nil {
		r = Result{Reason: explain(err), Refused: c.refused.Load()}
		// A channel that failed is thrown away: grpc-go's back-off before it dials
		// again (up to two minutes) would hide that the backend has come back, and a
		// connection into a black hole would be asked again and again.
		c.close()
	}
	r.Dialect = c.known()
	return r
}

// ask asks what is to be asked. Of the calls of capabilities it goes through all until one is
// implemented. The error is that of a call that got no usable answer.
func (c *client) ask(ctx context.Context) (Result, error) {
	if c.asks != Healthcheck {
		return c.askEngine(ctx)
	}
	for _, d := range c.candidates() {
		r, err := c.askCapability(ctx, d)
		if err == nil {
			c.found = d
			return r, nil
		}
		if status.Code(err) != codes.Unimplemented {
			return Result{}, err
		}
	}
	r, err := c.askGRPC(ctx)
	if err == nil {
		c.found = call.Auto
	}
	return r, err
}

// candidates lists the dialects to try, the likeliest first. A found dialect
// heads the list; if the backend was replaced by one that speaks another, the
// rest finds that out in the same probe.
func (c *client) candidates() []call.Dialect {
	switch {
	case c.dialect != call.Auto:
		return []call.Dialect{c.dialect}
	case c.found == call.Live:
		return []call.Dialect{call.Live, call.Doc, call.Legacy}
	case c.found == call.Legacy:
		return []call.Dialect{call.Legacy, call.Doc, call.Live}
	default:
		return []call.Dialect{call.Doc, call.Live, call.Legacy}
	}
}

func (c *client) known() call.Dialect {
	if c.dialect != call.Auto {
		return c.dialect
	}
	return c.found
}

// askCapability calls Healthcheck in dialect d. The dialects differ in the path only: the
// health messages of doc and live are the same bytes, and legacy has only the first field,
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
		reason = "says that it is not ready"
	}
	return Result{OK: reply.GetReady(), Reason: clip(reason)}, nil
}

// askGRPC calls the standard health service. A backend without it, or one that
// does not know the whole-server name "", has at least answered.
func (c *client) askGRPC(ctx context.Context) (Result, error) {
	var reply healthpb.HealthCheckResponse
	err := c.conn.Invoke(ctx, grpcPath, &healthpb.HealthCheckRequest{}, &reply)
	switch status.Code(err) {
	case codes.OK:
		serving := reply.GetStatus() == healthpb.HealthCheckResponse_SERVING
		return Result{OK: serving, Reason: "grpc.health.v1: " + reply.GetStatus().String()}, nil
	case codes.Unimplemented, codes.NotFound:
		return Result{OK: true, Reason: "connected; implements no health call"}, nil
	default:
		return Result{}, err
	}
}

func (c *client) connect() (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if c.tls != nil {
		secure := c.tls
		if secure.ServerName == "" && c.host != "" {
			secure = secure.Clone()
			secure.ServerName = c.host
		}
		creds = credentials.NewTLS(secure)
	}
	// passthrough and a dialer of our own: the name is resolved at each dial, by the
	// same means as for calls, and no HTTP_PROXY stands in between.
	return grpc.NewClient("passthrough:///"+c.addr,
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			nc, err := c.dial(ctx, addr)
			c.refused.Store(errors.Is(err, syscall.ECONNREFUSED))
			return nc, err
		}),
		grpc.WithUserAgent("capgate-health"),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0),
		grpc.WithReadBufferSize(4<<10),
		grpc.WithWriteBufferSize(4<<10),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)))
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close() // the only error is "already closed"
		c.conn = nil
	}
}

// explain says in one short line why a probe got no answer.
func explain(err error) string {
	s := status.Convert(err)
	if s.Code() == codes.DeadlineExceeded {
		return "no answer in time"
	}
	return clip(s.Code().String() + ": " + s.Message())
}

// clip bounds what a backend can put into logs and snapshots.
func clip(s string) string {
	if len(s) > maxReason {
		s = s[:maxReason] + "…"
	}
	return strings.ToValidUTF8(s, "")
}
