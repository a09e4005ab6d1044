package grpcservice_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/grpcservice"
	"github.com/capgate/capgate/internal/assertion"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/grpctest"
	"github.com/capgate/capgate/router"
)

// TestDeadBackend: the other backends get its calls, and the fleet is notified when its process has been replaced.
func TestDeadBackend(t *testing.T) {
	t.Parallel()
	a, b := grpctest.Start(t, grpctest.Options{}), grpctest.Start(t, grpctest.Options{})
	w := start(t, func(_ *upstream.Fleet, of *gatewaytest.Fleet) {
		of.Ejection.Base, of.Ejection.Max = time.Millisecond, time.Millisecond
	}, a.Addr, b.Addr)
	check.Until(t, "both backends to be called", func() (bool, string) {
		w.result(t, "Echo", `{}`)
		return a.Calls() > 0 && b.Calls() > 0, fmt.Sprintf("%d calls of one, %d of the other", a.Calls(), b.Calls())
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

// TestHealth: grpc.health.v1 decides where it is; else that a backend answers, and its reflection where that is
// needed.
func TestHealth(t *testing.T) {
	t.Parallel()
	down := health.NewServer()
	down.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	for name, c := range map[string]struct {
		options grpctest.Options
		file    bool
		want    string // empty means healthy
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
			fleet := upstream.Fleet{Capability: id, Protocol: &grpcservice.Settings{Methods: []string{demo}}}
			if c.file {
				fleet.Content = definitions(t)
			}
			services := grpcservice.Open(upstream.Options{})
			services.Set([]upstream.Fleet{fleet})
			r, err := services.Probe(id).Probe(within(t), connect(t, grpctest.Start(t, c.options).Addr))
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
	w := start(t, func(f *upstream.Fleet, _ *gatewaytest.Fleet) {
		settings(f).Methods = []string{"demo.v1.Demo/Echo"}
	}, s.Addr)
	w.result(t, "Echo", `{}`)
	if _, err := w.Invoke(within(t), request("Count", `{}`)); status.Code(err) != codes.NotFound {
		t.Errorf("a method that is not listed: %v", err)
	}
	w.fleet.Headers = map[string]string{"authorization": "new"}
	w.fleet.Protocol = &grpcservice.Settings{Methods: []string{demo}}
	w.services.Set([]upstream.Fleet{w.fleet})
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

// TestReplacedCredential: a new credential alone has an effect without a restart.
func TestReplacedCredential(t *testing.T) {
	t.Parallel()
	s := grpctest.Start(t, grpctest.Options{})
	w := start(t, func(f *upstream.Fleet, _ *gatewaytest.Fleet) {
		f.Headers = map[string]string{"authorization": "old"}
	}, s.Addr)
	w.result(t, "Echo", `{}`)
	w.fleet.Headers = map[string]string{"authorization": "new"}
	w.services.Set([]upstream.Fleet{w.fleet})
	w.result(t, "Echo", `{}`)
	if got := s.Metadata().Get("authorization"); len(got) != 1 || got[0] != "new" {
		t.Errorf("%q", got)
	}
}

// TestFleetReplacedDuringACall: a call that runs at a backend that is no more goes on.
func TestFleetReplacedDuringACall(t *testing.T) {
	t.Parallel()
	s := grpctest.Start(t, grpctest.Options{})
	w := start(t, nil, s.Addr)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	stream, err := w.StreamInvoke(ctx, request("Count", `{"endless":true}`))
	check.Must(t, err)
	check.Received(t, s.Began, "the start of the call at the service")
	w.services.Set(nil)
	for range 10 { // while the connection could be closed
		if _, err := w.Invoke(within(t), request("Echo", `{}`)); status.Code(err) != codes.Unavailable {
			t.Errorf("another call: %v", err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatalf("the call that runs: %v", err)
		}
	}
	select {
	case err := <-s.Ended:
		t.Errorf("the call has ended at the service: %v", err)
	default:
	}
}

// TestLostConnection: a call that a backend may have carried out is not made at another one.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	one, other := grpctest.Start(t, grpctest.Options{}), grpctest.Start(t, grpctest.Options{})
	w, ctx := start(t, nil, one.Addr, other.Addr), within(t)
	ended := make(chan error, 1)
	go func() {
		_, err := w.Invoke(ctx, request("Wait", `{}`))
		ended <- err
	}()
	select {
	case <-one.Began:
	case <-other.Began:
		one, other = other, one
	case err := <-ended:
		t.Fatal(err)
	}
	one.Stop()
	select {
	case err := <-ended:
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "lost during the call") {
			t.Error(err)
		}
	case <-other.Began:
		t.Error("the call was made once more")
	}
}

// TestReplacedProcess: what a process has said of its methods is not used for the process that takes its place.
func TestReplacedProcess(t *testing.T) {
	t.Parallel()
	first := grpctest.Start(t, grpctest.Options{})
	w := start(t, func(_ *upstream.Fleet, of *gatewaytest.Fleet) {
		of.Unprobed, of.Ejection.Base, of.Ejection.Max = true, time.Millisecond, time.Millisecond
	}, first.Addr)
	w.result(t, "Echo", `{}`)
	first.Stop()
	other := bytesOf(t, fileOf(func(f *descriptorpb.FileDescriptorProto) {
		f.Package, f.Service[0].Name = proto.String("demo.v1"), proto.String("Demo")
		f.Service[0].Method[0].InputType, f.Service[0].Method[0].OutputType = proto.String(".demo.v1.M"),
			proto.String(".demo.v1.M")
	}))
	grpctest.Start(t, grpctest.Options{Addr: first.Addr, Reflect: answering(
		func(*reflectionpb.ServerReflectionRequest) [][]byte { return [][]byte{other} })})
	check.Holds(t, "a connection to the new process", func() bool {
		_, _ = w.Invoke(within(t), request("Echo", `{}`))
		return len(w.changes) > 0
	})
	check.Until(t, "the method not to be known any more", func() (bool, string) {
		_, err := w.Invoke(within(t), request("Echo", `{}`))
		if err == nil {
			t.Fatal("a method is called that the process does not have")
		}
		return status.Code(err) == codes.NotFound, fmt.Sprint(err)
	})
}

// TestProbeWithoutKey: the result of a probe says that the gateway cannot sign assertions.
func TestProbeWithoutKey(t *testing.T) {
	t.Parallel()
	services := grpcservice.Open(upstream.Options{})
	services.Set([]upstream.Fleet{{Capability: id, Protocol: &grpcservice.Settings{Methods: []string{demo}},
		Assertion: &router.Assertion{}}})
	r, err := services.Probe(id).Probe(within(t), connect(t, grpctest.Start(t, grpctest.Options{}).Addr))
	if err != nil || r.OK || r.Reason != assertion.ErrNoKey.Error() {
		t.Errorf("%+v, %v", r, err)
	}
}
