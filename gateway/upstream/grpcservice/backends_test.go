package grpcservice_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/upstream/grpcservice"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/grpctest"
)

// TestDeadBackend: the other backends get its calls, and the fleet is told when its process has been replaced.
func TestDeadBackend(t *testing.T) {
	t.Parallel()
	a, b := grpctest.Start(t, grpctest.Options{}), grpctest.Start(t, grpctest.Options{})
	w := start(t, func(_ *grpcservice.Fleet, of *gatewaytest.Fleet) {
		of.Ejection.Base, of.Ejection.Max = time.Millisecond, time.Millisecond
	}, a.Addr, b.Addr)
	check.Holds(t, "both backends to be called", func() bool {
		w.result(t, "Echo", `{}`)
		return a.Calls() > 0 && b.Calls() > 0
	})
	a.Stop()
	lost := 0
	for n := range 20 { // a call that was not sent is not lost
		_, err := w.Invoke(within(t), request("Echo", `{}`))
		if lost == 0 && status.Code(err) == codes.Unavailable {
			lost++ // it was sent before the end of the connection was known
			continue
		}
		if err != nil {
			t.Errorf("call %d: %v", n, err)
		}
	}
	again := grpctest.Start(t, grpctest.Options{Addr: a.Addr})
	check.Holds(t, "the new process to be called", func() bool {
		w.result(t, "Echo", `{}`)
		return again.Calls() > 0
	})
	check.Received(t, w.changes, "the fleet to be told")
}

// TestHealth: grpc.health.v1 decides where it is; else that a backend answers, and its reflection where that is needed.
func TestHealth(t *testing.T) {
	t.Parallel()
	down := health.NewServer()
	down.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	for name, c := range map[string]struct {
		options grpctest.Options
		file    bool
		want    string // "": healthy
	}{
		"serving":                    {grpctest.Options{Health: health.NewServer()}, false, ""},
		"not serving":                {grpctest.Options{Health: down}, false, "NOT_SERVING"},
		"no health":                  {grpctest.Options{}, false, ""},
		"no reflection":              {grpctest.Options{Reflection: grpctest.NoReflection}, false, "descriptor_file"},
		"no reflection but a file":   {grpctest.Options{Reflection: grpctest.NoReflection}, true, ""},
		"v1alpha":                    {grpctest.Options{Reflection: grpctest.V1Alpha}, false, ""},
		"not serving, with the file": {grpctest.Options{Health: down}, true, "NOT_SERVING"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fleet := grpcservice.Fleet{Capability: id, Methods: []string{demo}}
			if c.file {
				fleet.Definitions = definitions(t)
			}
			services := grpcservice.New(grpcservice.Options{})
			services.Set([]grpcservice.Fleet{fleet})
			conn, err := clienttest.NewConn("passthrough:///"+grpctest.Start(t, c.options).Addr,
				grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			r, err := services.Probe(id).Probe(within(t), conn)
			if err != nil || r.OK != (c.want == "") || !strings.Contains(r.Reason, c.want) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestReplacedFleet: a new credential, and new methods, have an effect without a restart.
func TestReplacedFleet(t *testing.T) {
	t.Parallel()
	s := grpctest.Start(t, grpctest.Options{})
	w := start(t, func(f *grpcservice.Fleet, _ *gatewaytest.Fleet) { f.Methods = []string{"demo.v1.Demo/Echo"} }, s.Addr)
	w.result(t, "Echo", `{}`)
	if _, err := w.Invoke(within(t), request("Count", `{}`)); status.Code(err) != codes.NotFound {
		t.Errorf("a method that is not listed: %v", err)
	}
	w.fleet.Headers, w.fleet.Methods = map[string]string{"authorization": "new"}, []string{"demo.v1.Demo/*"}
	w.services.Set([]grpcservice.Fleet{w.fleet})
	if got := check.Received(t, w.changes, "the change"); got != id {
		t.Errorf("%s has changed", got)
	}
	w.result(t, "Count", `{}`)
	if got := s.Metadata().Get("authorization"); len(got) != 1 || got[0] != "new" {
		t.Errorf("%q", got)
	}
	w.services.Set(nil)
	if _, err := w.Invoke(within(t), request("Echo", `{}`)); status.Code(err) != codes.Unavailable {
		t.Errorf("a fleet that is no more: %v", err)
	}
}
