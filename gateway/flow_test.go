package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestDrainOfPacedStreams: a stream that is slow because of its tenant's limit may finish while the gateway
// drains, and is cut off after the drain timeout.
func TestDrainOfPacedStreams(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		drain time.Duration
		rate  int64 // while it drains
		code  codes.Code
	}{
		"finishes":   {check.Patience, 1 << 30, codes.OK},
		"is cut off": {50 * time.Millisecond, 1, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, acme, _ := boundedFor(t, gatewaytest.Options{Drain: &gateway.Drain{Timeout: test.drain}},
				tenant.Limits{BytesPerSecond: 1}, call.Doc)
			change := follow(t, f, 1)
			ended := make(chan error, 1)
			go func() {
				_, err := f.client.Upload(context.WithoutCancel(acme), file(2<<20))
				ended <- err
			}()
			check.Until(t, "the upload to be held up", func() (bool, string) {
				return f.gateway.Metrics(t)[slowed] > 0, "none is counted"
			})
			f.gateway.Drain()
			f.gateway.Log.Wait(t, `"msg":"draining"`)
			change(test.rate)
			err := check.Received(t, ended, "the end of the call")
			if reason := errorInfo(err).GetReason(); status.Code(err) != test.code ||
				err != nil && reason != "DRAINING" {
				t.Errorf("got %v, %q", err, reason)
			}
			f.gateway.Stop(t)
		})
	}
}

// slowed returns how many streams of acme were delayed and how many of its calls were rejected.
const slowed = `capgate_tenant_limited_total{limit="bytes_per_second",mode="enforced",tenant="acme"}`

// follow makes streams of acme follow later changes of its limits.
func follow(t *testing.T, f *front, rate int64) (change func(rate int64)) {
	t.Helper()
	directory := tenant.NewDirectory(nil)
	change = func(rate int64) {
		directory.Replace(map[string]*tenant.Settings{
			"acme": {ID: "acme", Limits: tenant.Limits{BytesPerSecond: rate}}})
	}
	change(rate)
	var follower sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	follower.Go(func() { f.gateway.WatchRates(ctx, directory) })
	check.Cleanup(t, func() {
		stop()
		check.Ended(t, &follower, "the follower to stop")
	})
	return change
}

// bounded returns a front whose tenant acme has limits; globex has none.
func bounded(t *testing.T, l tenant.Limits, backend call.Dialect) (f *front, acme, globex context.Context) {
	t.Helper()
	return boundedFor(t, gatewaytest.Options{}, l, backend)
}

// boundedFor is bounded with further options.
func boundedFor(t *testing.T, o gatewaytest.Options, l tenant.Limits, backend call.Dialect) (f *front, acme,
	globex context.Context) {
	t.Helper()
	ring := newKeyring()
	all, err := tenant.ParseGrants([]string{"*"})
	check.Must(t, err)
	keys := tenant.NewKeys(nil)
	f = &front{capability: gatewaytest.NewCapability("b1")}
	f.limit = func(l tenant.Limits) {
		keys.Replace(ring.keys, map[string]*tenant.Settings{
			"acme": {ID: "acme", Capabilities: all, Limits: l}, "globex": {ID: "globex", Capabilities: all},
		}, nil)
	}
	f.limit(l)
	f.capability.SetLists(func() ([]byte, string, error) {
		return []byte(`{"capability_artifact_id":"b1-2"}`), "", nil
	})
	f.backend = f.capability.Serve(t, backend)
	o.Fleets, o.Authenticator = []gatewaytest.Fleet{{Capability: "caps", Backends: []string{f.backend.Addr}}}, keys
	f.gateway = gatewaytest.Start(t, o)
	f.conn = f.gateway.Conn(t)
	f.client = gatewaytest.NewClient(f.conn, call.Doc)
	return f, to(bearer(t.Context(), ring.credentials["acme"]), "caps"),
		to(bearer(t.Context(), ring.credentials["globex"]), "caps")
}

// TestRatesChangeUnderAStream: an open stream follows changes of its tenant's rate.
func TestRatesChangeUnderAStream(t *testing.T) {
	t.Parallel()
	const fast, slow = 1 << 30, 1
	f, acme, _ := bounded(t, tenant.Limits{BytesPerSecond: fast}, call.Doc)
	change := follow(t, f, fast)
	stream, err := docpb.NewCapabilityClient(f.conn).UploadInputArtifact(acme)
	check.Must(t, err)
	chunks, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for range chunks {
			if stream.Send(&docpb.UploadInputArtifactChunk{Data: file(64 << 10).Data}) != nil {
				break // the error says why
			}
		}
		_, err := stream.CloseAndRecv()
		ended <- err
	}()
	chunks <- struct{}{}
	change(slow)
	check.Until(t, "the stream to be held up", func() (bool, string) {
		select {
		case chunks <- struct{}{}:
		default:
		}
		return f.gateway.Metrics(t)[slowed] > 0, "none is counted"
	})
	change(fast)
	close(chunks)
	if err := check.Received(t, ended, "the stream to continue"); err != nil {
		t.Error(err)
	}
}

// requireQuota requires an error that names the limit of acme.
func requireQuota(t *testing.T, err error, reason, limit string) {
	t.Helper()
	info := wants(t, err, codes.ResourceExhausted, reason)
	for _, d := range status.Convert(err).Details() {
		if q, ok := d.(*errdetails.QuotaFailure); ok && q.GetViolations()[0].GetSubject() == "tenant:acme" &&
			info.GetMetadata()["limit"] == limit {
			return
		}
	}
	t.Errorf("%v names no quota of acme", err)
}

func file(size int) gatewaytest.File {
	return gatewaytest.File{Name: "a", Data: bytes.Repeat([]byte("x"), size)}
}

// TestArtifactSize: an artifact of the maximum size is uploaded and downloaded, translated or not; a larger one
// is rejected. Other tenants have their own maximum.
func TestArtifactSize(t *testing.T) {
	t.Parallel()
	const most = 600_000
	for name, backend := range map[string]call.Dialect{"as it is": call.Doc, "translated": call.Live} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, acme, globex := bounded(t, tenant.Limits{ArtifactSize: most}, backend)
			up, err := f.client.Upload(acme, file(most))
			check.Must(t, err)
			if got, err := f.client.Download(acme, up.ID); err != nil || len(got.Data) != most {
				t.Errorf("%d bytes, %v", len(got.Data), err)
			}
			_, err = f.client.Upload(acme, file(2*most))
			requireQuota(t, err, "ARTIFACT_TOO_LARGE", "artifact_size")
			if up, err = f.client.Upload(globex, file(2*most)); err != nil {
				t.Fatal(err)
			}
			if listed, err := f.client.Invoke(acme, request(gatewaytest.List, `{}`)); err != nil ||
				!strings.Contains(string(listed.GetResultJson()), `"`+up.ID+`"`) {
				t.Errorf("acme reads upload %s, want %s: %v", listed.GetResultJson(), up.ID, err)
			}
			_, err = f.client.Download(acme, up.ID)
			requireQuota(t, err, "ARTIFACT_TOO_LARGE", "artifact_size")
			if _, err = f.client.Invoke(acme, request(gatewaytest.Echo, `"`+string(file(2*most).Data)+
				`"`)); err != nil {
				t.Errorf("an id that is no artifact: %v", err)
			}
			n := f.gateway.Metrics(t)[`capgate_tenant_limited_total{limit="artifact_size",mode="enforced",tenant="acme"}`]
			if n != 2 {
				t.Errorf("%v are counted, want 2", n)
			}
		})
	}
}

func TestMessagesOfAStream(t *testing.T) {
	t.Parallel()
	for name, shadow := range map[string]bool{"enforced": false, "shadow": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, acme, globex := bounded(t, tenant.Limits{Messages: 1, Shadow: shadow}, call.Doc)
			if _, err := f.client.Invoke(acme, request(gatewaytest.Echo, `{}`)); err != nil {
				t.Error(err)
			}
			_, err := f.client.StreamInvoke(acme, request(gatewaytest.Echo, `{}`)) // which sends two messages
			if !shadow {
				requireQuota(t, err, "TOO_MANY_MESSAGES", "messages")
			} else if err != nil {
				t.Error(err)
			}
			if _, err := f.client.StreamInvoke(globex, request(gatewaytest.Echo, `{}`)); err != nil {
				t.Error(err)
			}
			n := f.gateway.Metrics(t)[`capgate_tenant_limited_total{limit="messages",mode="`+name+`",tenant="acme"}`]
			if n != 1 {
				t.Errorf("%v are counted, want 1", n)
			}
		})
	}
}

// TestBytesPerSecond: a large upload is delayed, and succeeds; calls are rejected while their tenant is far
// over its rate; other tenants do not wait.
func TestBytesPerSecond(t *testing.T) {
	t.Parallel()
	const rate, size = 4 << 20, 2 << 20
	f, acme, globex := bounded(t, tenant.Limits{BytesPerSecond: rate}, call.Doc)
	began := time.Now()
	_, err := f.client.Upload(acme, file(size))
	// All except the burst: a quarter of a second, and the stream's window, in both directions.
	const least = time.Second * (size - rate/4 - 2*65535) / rate
	if took := time.Since(began); err != nil || took < least {
		t.Errorf("%d bytes took %v, want no less than %v: %v", size, took, least, err)
	}
	up, err := f.client.Upload(globex, file(size))
	if err != nil {
		t.Error(err)
	}
	if _, err := f.client.Download(globex, up.ID); err != nil {
		t.Error(err)
	}
	big := request(gatewaytest.Echo, `"`+string(file(size).Data)+`"`)
	if _, err := f.client.Invoke(globex, big); err != nil {
		t.Error(err)
	}
	f.limit(tenant.Limits{BytesPerSecond: 1})
	before, ended := f.gateway.Metrics(t)[slowed], make(chan error, 1)
	go func() {
		_, err := f.client.Upload(acme, file(size))
		ended <- err
	}()
	check.Until(t, "an upload to be held up", func() (bool, string) {
		n := f.gateway.Metrics(t)[slowed]
		return n > before, fmt.Sprintf("%v are counted, %v before", n, before)
	})
	_, err = f.client.Invoke(acme, request(gatewaytest.Echo, `{}`))
	requireQuota(t, err, "BANDWIDTH_LIMITED", "bytes_per_second")
	if after := retryDelay(err); after < time.Second || after > size*time.Second {
		t.Errorf("retry after %v", after)
	}
	if n := f.gateway.Metrics(t)[slowed]; n != before+2 {
		t.Errorf("%v are counted after %v, an upload and a call", n, before)
	}
	f.limit(tenant.Limits{BytesPerSecond: 1 << 30})
	if _, err := f.client.Invoke(acme, request(gatewaytest.Echo, `{}`)); err != nil {
		t.Error(err)
	}
	if err := check.Received(t, ended, "the upload to continue"); err != nil {
		t.Error(err)
	}
}
