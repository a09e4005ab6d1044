package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// limited returns a front whose only tenant has limits.
func limited(t *testing.T, client, backend call.Dialect, l tenant.Limits) *front {
	t.Helper()
	of := ratelimit.New(ratelimit.Config{Store: gatewaytest.OpenStore(t, "embedded").Limits("a")})
	of.Single(&tenant.Settings{ID: tenant.Default, Limits: l})
	f := &front{capability: gatewaytest.NewCapability("b1")}
	f.backend = f.capability.Serve(t, backend)
	f.gateway = gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{f.backend.Addr}}},
		Limits: of,
	})
	f.conn = f.gateway.Conn(t)
	f.client = gatewaytest.NewClient(f.conn, client)
	return f
}

// TestABudgetIsForCallsAlone: health checks and the gateway's own responses use no tokens.
func TestABudgetIsForCallsAlone(t *testing.T) {
	t.Parallel()
	f := limited(t, call.Doc, call.Live, tenant.Limits{Bounds: tenant.Bounds{PerMonth: 5}})
	ctx := to(t.Context(), "caps")
	for range 10 {
		if _, _, err := f.client.Healthcheck(ctx); err != nil {
			t.Fatal(err)
		}
	}
	// In another dialect an upload is translated and passes the gateway twice.
	if _, err := f.client.Upload(ctx, gatewaytest.File{Name: "n", Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		_, err := f.client.Invoke(ctx, request(gatewaytest.Echo, `{}`))
		if (err != nil) != (i >= 4) {
			t.Fatalf("call %d: %v", i, err)
		}
		if err == nil {
			continue
		}
		st := status.Convert(err)
		quota, retry := false, false
		for _, d := range st.Details() {
			switch d := d.(type) {
			case *errdetails.QuotaFailure:
				quota = d.GetViolations()[0].GetSubject() == "tenant:default"
			case *errdetails.RetryInfo:
				retry = d.GetRetryDelay().AsDuration() > 0
			}
		}
		if st.Code() != codes.ResourceExhausted || !quota || !retry || !strings.Contains(st.Message(), "(5)") {
			t.Errorf("%v; quota %+v; info %+v", st.Proto(), quota, retry)
		}
	}
	if n := len(f.capability.Seen()); n != 5 {
		t.Errorf("the backend saw %d calls", n)
	}
}

// TestRateLimitHeaders: a rejected JSON call names its limit and the time to retry.
func TestRateLimitHeaders(t *testing.T) {
	t.Parallel()
	f := limited(t, call.Doc, call.Doc,
		tenant.Limits{Each: []tenant.Limit{{Capability: "caps", Tool: gatewaytest.Echo,
			Bounds: tenant.Bounds{PerMonth: 1}}}})
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		resp, err := f.gateway.HTTP1(t).Post(f.gateway.URL("/v1/capabilities/caps/invoke"), "application/json",
			strings.NewReader(`{"tool_name":"`+gatewaytest.Echo+`"}`))
		check.Must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("call %d: %s", i, resp.Status)
		}
		if i == 0 {
			continue
		}
		for name, want := range map[string]string{"RateLimit-Limit": "1", "RateLimit-Remaining": "0",
			"RateLimit-Policy": `"per_month";q=1`} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if retry := resp.Header.Get("Retry-After"); retry == "" || resp.Header.Get("RateLimit-Reset") != retry ||
			resp.Header.Get("RateLimit") != `"per_month";r=0;t=`+retry {
			t.Errorf("%v; retry %+v", resp.Header, retry)
		}
	}
}

// TestPermitsAreReleased: permits are released however calls and streams end.
func TestPermitsAreReleased(t *testing.T) {
	t.Parallel()
	f := limited(t, call.Doc, call.Doc, tenant.Limits{Bounds: tenant.Bounds{Concurrent: 2}})
	ctx, leave := context.WithCancel(to(t.Context(), "caps"))
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := f.client.Invoke(ctx, request(gatewaytest.Block, `{}`))
			ended <- err
		}()
	}
	for range 2 {
		check.Received(t, f.capability.Blocked(), "the calls to be at the backend")
	}
	if _, err := f.client.Invoke(to(t.Context(), "caps"),
		request(gatewaytest.Echo, `{}`)); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(),
		"concurrent") {
		t.Errorf("a third call: %v", err)
	}
	leave()
	for range 2 {
		if err := check.Received(t, ended, "the end of the call"); status.Code(err) != codes.Canceled {
			t.Error(err)
		}
	}
	f.gateway.Log.Calls(t, 3)
	for range 10 { // one after another, with two permits
		if _, err := f.client.StreamInvoke(to(t.Context(), "caps"), request(gatewaytest.Echo, `{}`),
			grpc.WaitForReady(true)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestShadowedCallsAreLogged: a call beyond a shadow limit continues and is logged.
func TestShadowedCallsAreLogged(t *testing.T) {
	t.Parallel()
	f := limited(t, call.Doc, call.Doc, tenant.Limits{Bounds: tenant.Bounds{PerMonth: 2}, Shadow: true})
	for n, shadowed := 1, 0; shadowed < 10; n++ { // the first few are within the limit
		if _, err := f.client.Invoke(to(t.Context(), "caps"), request(gatewaytest.Echo, `{}`)); err != nil {
			t.Fatal(err)
		}
		if line := f.gateway.Log.Calls(t, n)[n-1]; line.Text("limit_shadow") == "per_month" {
			shadowed++
		} else if n == 2000 {
			t.Fatalf("%d of %d lines name the shadow limit", shadowed, n)
		}
	}
}
