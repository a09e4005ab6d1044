package container

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/grpcerror"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// NoSuchTool is a tool that no capability has, so that a call of it has no effect.
const NoSuchTool = "capgate_no_such_tool"

// Spoken is a dialect of a container.
type Spoken struct {
	Dialect call.Dialect
	Service string // its gRPC service
	Asked   bool   // it has a health method
	Ready   bool   // which reports readiness
	Message string // its message, or the reason of a failure; at most a few hundred bytes
}

// Report is the result of a probe.
type Report struct {
	Spoken     []Spoken // in the order doc, live, legacy
	GRPCHealth string   // status of the whole server in grpc.health.v1; "": no such service
	Silent     string   // why calls got no response; "": they did
}

// Ready reports whether the container accepts calls in some dialect: it says so, or has no health method.
func (r Report) Ready() bool {
	for _, s := range r.Spoken {
		if s.Ready || !s.Asked {
			return true
		}
	}
	return false
}

// Probe probes a container in all dialects.
func Probe(ctx context.Context, conn grpc.ClientConnInterface) Report {
	var r Report
	for _, d := range []call.Dialect{call.Doc, call.Live, call.Legacy} {
		c := Client{Conn: conn, Dialect: d}
		s, ok, err := c.speaks(ctx)
		if ok {
			r.Spoken = append(r.Spoken, s)
		}
		if err != nil {
			r.Silent = Explain(err)
			return r
		}
	}
	reply, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err == nil {
		r.GRPCHealth = reply.GetStatus().String()
	}
	return r
}

// speaks reports whether the container has c's dialect, by its health method, or else by a call of an unknown tool.
// The error is that of a container without any response.
func (c Client) speaks(ctx context.Context) (s Spoken, ok bool, err error) {
	s = Spoken{Dialect: c.Dialect, Service: c.Service()}
	ready, message, err := c.Healthcheck(ctx)
	if err == nil {
		s.Asked, s.Ready, s.Message = true, ready, Clean(message)
		return s, true, nil
	}
	if status.Code(err) != codes.Unimplemented {
		s.Asked, s.Message = true, Explain(err)
		return s, answered(err), silence(err)
	}
	_, err = c.Invoke(ctx, Question{Tool: NoSuchTool, Args: []byte("{}")})
	return s, err == nil || answered(err), silence(err)
}

// answered reports whether a failed call reached a server that implements its method.
func answered(err error) bool {
	return status.Code(err) != codes.Unimplemented && silence(err) == nil && !notGRPC(err)
}

// notGRPC reports whether the server does not use gRPC, for which grpc-go has no code.
func notGRPC(err error) bool {
	text := status.Convert(err).Message()
	return strings.Contains(text, "unexpected HTTP status code") || strings.Contains(text, "malformed header")
}

// silence returns err if there was no response.
func silence(err error) error {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		if !notGRPC(err) {
			return err
		}
	}
	return nil
}

// WaitReady calls the health method every 200 ms, as Selu's orchestrator does, until the container is ready, has no
// such method, or ctx ends. It returns the last result.
func (c Client) WaitReady(ctx context.Context) (ready bool, message string, err error) {
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for first := true; ; first = false {
		now, text, failed := c.Healthcheck(ctx)
		if first || ctx.Err() == nil {
			ready, message, err = now, Clean(text), failed
		}
		if ready && err == nil || status.Code(err) == codes.Unimplemented {
			return ready, message, err
		}
		select {
		case <-ctx.Done():
			return ready, message, err
		case <-again.C:
		}
	}
}

// Explain returns one line about the error of a call.
func Explain(err error) string {
	return Clean(grpcerror.Explain(err))
}

// maxClean bounds a container's text on a terminal, in bytes.
const maxClean = 300

// Clean returns a container's text as one short printable line.
func Clean(s string) string { return untrusted.Line(untrusted.Clip(s, maxClean)) }
