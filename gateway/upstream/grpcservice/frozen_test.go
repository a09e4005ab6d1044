package grpcservice_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/grpctest"
)

// waiting returns a gateway with a backend that has a call.
func waiting(t *testing.T, ln *gatewaytest.Freezer) (w *serviceGateway, checks func(), leave func(), ended chan error) {
	t.Helper()
	server := grpctest.Start(t, grpctest.Options{Listen: ln})
	check.Cleanup(t, ln.Thaw)
	w = start(t, nil, server.Addr)
	ctx, leave := context.WithCancel(within(t))
	ended = make(chan error, 1)
	go func() {
		_, err := w.Invoke(ctx, request("Wait", `{}`))
		ended <- err
	}()
	check.Received(t, server.Began, "the call")
	return w, func() { w.services.(upstream.Checker).Check(id, server.Addr) }, leave, ended
}

// TestFrozenBackend: a call at a backend that stops responding ends as one that may have run.
func TestFrozenBackend(t *testing.T) {
	t.Parallel()
	ln := gatewaytest.NewFreezer(check.Listen(t))
	_, checks, leave, ended := waiting(t, ln)
	defer leave()
	ln.Freeze()
	var err error
	check.Until(t, "the end of the call", func() (bool, string) { // probes fail again and again
		checks()
		select {
		case err = <-ended:
			return true, ""
		default:
			return false, "it runs"
		}
	})
	if info := clienttest.ErrorInfo(err); status.Code(err) != codes.Unavailable || info.GetReason() !=
		"UPSTREAM_LOST" ||
		info.GetMetadata()["not_started"] != "" {
		t.Errorf("%v, %v", err, info)
	}
}

// TestLivingBackend: a backend that does not answer probes alone keeps its calls.
func TestLivingBackend(t *testing.T) {
	t.Parallel()
	w, checks, leave, ended := waiting(t, gatewaytest.NewFreezer(check.Listen(t)))
	pace := time.NewTicker(silence / 100)
	defer pace.Stop()
	for end := time.Now().Add(2 * silence); time.Now().Before(end); <-pace.C {
		checks()
		w.result(t, "Echo", `{}`)
	}
	leave()
	if err := check.Received(t, ended, "the end of the call"); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
}
