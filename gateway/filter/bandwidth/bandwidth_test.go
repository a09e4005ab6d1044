package bandwidth_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/bandwidth"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/filtertest"
)

// newFilter makes a filter of a relay that has no connections.
func newFilter() (f *bandwidth.Filter, end func()) {
	metrics, err := telemetry.NewMetrics(prometheus.NewRegistry(), telemetry.MetricsConfig{})
	if err != nil {
		panic(err)
	}
	r := relay.New(relay.Config{Shards: 1}, nil, nil)
	f = bandwidth.New(bandwidth.Config{Metrics: metrics, Accounts: fairshare.New("calls", 1<<20)})
	f.Attach(r)
	return f, r.Close
}

// callOf is a call of a tenant that uploads.
func callOf(settings *tenant.Settings) (*filter.Call, *filtertest.Stream) {
	c, stream := filtertest.NewCall()
	c.Principal.Settings, c.Info.Method = settings, call.UploadInputArtifact
	return c, stream
}

// TestOneGroupForATenant: all streams of a tenant share a group, and other tenants have others.
func TestOneGroupForATenant(t *testing.T) {
	t.Parallel()
	f, end := newFilter()
	defer end()
	group := func(id string) *relay.Group {
		c, stream := callOf(&tenant.Settings{ID: id, Limits: tenant.Limits{BytesPerSecond: 1 << 20}})
		if step := f.Admit(c, &bandwidth.State{}); step != filter.Continue || len(stream.Groups) != 1 {
			t.Fatalf("step %d, %d groups", step, len(stream.Groups))
		}
		return stream.Groups[0]
	}
	acme := group("acme")
	if group("acme") != acme {
		t.Error("a tenant's second call has another group")
	}
	if group("globex") == acme {
		t.Error("two tenants have one group")
	}
}

// TestMemory: a call is charged to its tenant, and rejected where that has no room.
func TestMemory(t *testing.T) {
	t.Parallel()
	f, end := newFilter()
	defer end()
	c, stream := callOf(&tenant.Settings{ID: "acme"})
	if refusal := f.Charge(c); refusal != nil || stream.Groups[0] != f.GroupOf(c.Principal.Settings) {
		t.Errorf("%+v; the groups are %v, want %v", refusal, stream.Groups, f.GroupOf(c.Principal.Settings))
	}
	stream.Full = true
	if refusal := f.Charge(c); refusal != filter.OverMemoryShare || !c.Shed {
		t.Errorf("%+v; shed %t", refusal, c.Shed)
	}
}

// TestUnlimited: without tenants and limits the relay counts nothing, until there are limits.
func TestUnlimited(t *testing.T) {
	t.Parallel()
	f, end := newFilter()
	defer end()
	c, stream := callOf(nil)
	if step := f.Admit(c, &bandwidth.State{}); step != filter.Continue || len(stream.Groups) != 0 {
		t.Errorf("step %d, %d groups", step, len(stream.Groups))
	}
	f.UpdateSingle(&tenant.Settings{ID: tenant.Default, Limits: tenant.Limits{Messages: 3}})
	if f.Admit(c, &bandwidth.State{}); stream.Limits.Messages != 3 {
		t.Errorf("%+v", stream.Limits)
	}
}

// A tenant's artifacts may have a mebibyte. The relay is told so, with room for what is around the bytes in messages.
func Example() {
	f, end := newFilter()
	defer end()
	settings := &tenant.Settings{ID: "acme", Limits: tenant.Limits{ArtifactSize: 1 << 20}}
	c, stream := callOf(settings)
	c.Principal.Metrics = nil // nothing counts here
	s := &bandwidth.State{}
	f.Admit(c, s)
	fmt.Println(stream.Limits.Bytes > 1<<20, f.Exceeded(c, s, relay.TooManyBytes))
	fmt.Println(f.Explain(s, relay.TooManyBytes).Reason)
	// Output:
	// true true
	// ARTIFACT_TOO_LARGE
}
