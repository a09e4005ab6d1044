package container

import (
	"context"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
)

// NoSuchTool is a tool that no capability has, so that asking for it does nothing.
const NoSuchTool = "capgate_no_such_tool"

// Spoken is a dialect that a container speaks.
type Spoken struct {
	Dialect call.Dialect
	Service string // its gRPC service
	Asked   bool   // it has a health call
	Ready   bool   // which said so
	Message string // what it said, or why it could not be asked; at most a few hundred bytes
}

// Report is what a container says of itself.
type Report struct {
	Spoken     []Spoken // in the order doc, live, legacy
	GRPCHealth string   // what grpc.health.v1 says of the whole server; "": it is not there
	Silent     string   // why calls were not answered; "": they were
}

// Ready says whether the container takes calls in some dialect: it says so, or has no health
// call to say it.
func (r Report) Ready() bool {
	for _, s := range r.Spoken {
		if s.Ready || !s.Asked {
			return true
		}
	}
	return false
}

// Probe asks a container in all dialects.
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

// speaks finds out whether the container speaks c's dialect, by its health call, and where it has none
// by calling a tool that is not there. The error is that of a container that answers nothing.
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

// answered says whether a call that failed got as far as somebody who knows its method.
func answered(err error) bool {
	return status.Code(err) != codes.Unimplemented && silence(err) == nil && !notGRPC(err)
}

// notGRPC says whether what answered does not speak gRPC: grpc-go has no code for that.
func notGRPC(err error) bool {
	text := status.Convert(err).Message()
	return strings.Contains(text, "unexpected HTTP status code") || strings.Contains(text, "malformed header")
}

// silence is err where nobody answered.
func silence(err error) error {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		if !notGRPC(err) {
			return err
		}
	}
	return nil
}

// WaitReady asks for readiness every 200 ms, as Selu's orchestrator does, until it is there, the call
// is not, or ctx ends. It returns what was said last.
func (c Client) WaitReady(ctx context.Context) (ready bool, message string, err error) {
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for first := true; ; first = false {
		now, said, failed := c.Healthcheck(ctx)
		if first || ctx.Err() == nil {
			ready, message, err = now, Clean(said), failed
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

// Explain says in one line what a call ended with.
func Explain(err error) string {
	s := status.Convert(err)
	if s.Code() == codes.DeadlineExceeded {
		return "no answer in time"
	}
	return Clean("gRPC status " + s.Code().String() + ": " + s.Message())
}

// maxClean bounds what a container can put on a terminal, in bytes.
const maxClean = 300

// Clean makes one short printable line of what a container said.
func Clean(s string) string {
	if len(s) > maxClean {
		s = s[:maxClean] + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}
