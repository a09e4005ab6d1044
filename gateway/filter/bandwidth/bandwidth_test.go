package bandwidth_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/bandwidth"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/filtertest"
)

// newFilter returns a filter of a relay without connections.
func newFilter() (f *bandwidth.Filter, end func()) {
	f, r := filterOf(nil, nil)
	return f, r.Close
}

// filterOf returns a filter of a relay with the Handler h.
func filterOf(h relay.Handler, replicas func() int) (*bandwidth.Filter, *relay.Relay) {
	metrics, err := telemetry.NewMetrics(prometheus.NewRegistry(), telemetry.MetricsConfig{})
	if err != nil {
		panic(err)
	}
	r := relay.New(relay.Config{Shards: 1}, h, nil)
	f := bandwidth.New(bandwidth.Config{Metrics: metrics, Accounts: fairshare.New("calls", 1<<20), Replicas: replicas})
	f.Attach(r)
	return f, r
}

// taker is the Handler of a relay whose calls all belong to one group. It reads one message of each.
type taker struct {
	relay.Handler
	group *relay.Group
}

func (h *taker) Headers(s *relay.Stream) {
	s.Join(h.group)
	s.ReadMessage()
}

func (*taker) Message(s *relay.Stream, _ relay.Message) { s.Reply(nil) }
func (*taker) Done(*relay.Stream, *relay.Result)        {}

// bring makes a tenant send a number of bytes through a relay, and returns the relay's filter and the tenant's group.
func bring(t *testing.T, replicas func() int, settings *tenant.Settings, bytes int) (*bandwidth.Filter, *relay.Group) {
	t.Helper()
	h := &taker{}
	f, r := filterOf(h, replicas)
	check.Cleanup(t, r.Close)
	if settings.ID == tenant.Default {
		f.UpdateSingle(settings)
	}
	h.group = f.GroupOf(settings)
	var a relay.Response
	r.Unary(check.Context(t), relay.Request{Path: "/t.T/Bring"}, make([]byte, relay.Headroom+bytes), &a)
	if a.Status.Code != 0 {
		t.Fatalf("%+v", a.Status)
	}
	return f, h.group
}

// TestFarBehind: calls of a tenant far over its rate are rejected, unless the limit is a shadow limit.
func TestFarBehind(t *testing.T) {
	t.Parallel()
	for shadow, want := range map[bool]filter.Step{false: filter.Stop, true: filter.Continue} {
		settings := &tenant.Settings{ID: "acme", Limits: tenant.Limits{BytesPerSecond: 1, Shadow: shadow}}
		f, _ := bring(t, nil, settings, 1000)
		c, _ := callOf(settings)
		if step := f.Admit(c, &bandwidth.State{}); step != want {
			t.Errorf("shadow %t: step %d, not %d", shadow, step, want)
		}
	}
}

// TestShareOfAReplica: each replica grants a tenant its share of the rate.
func TestShareOfAReplica(t *testing.T) {
	t.Parallel()
	settings := &tenant.Settings{ID: "acme", Limits: tenant.Limits{BytesPerSecond: 4}}
	_, g := bring(t, func() int { return 4 }, settings, 1000)
	if behind := g.Behind(); behind < 500*time.Second || behind > 1100*time.Second {
		t.Errorf("a thousand bytes at one a second: %v behind", behind)
	}
}

// TestLimitsOfTheOnlyTenant: a change of the limits applies at once, also to bytes that were sent before.
func TestLimitsOfTheOnlyTenant(t *testing.T) {
	t.Parallel()
	f, g := bring(t, nil, &tenant.Settings{ID: tenant.Default, Limits: tenant.Limits{BytesPerSecond: 1}}, 1000)
	if behind := g.Behind(); behind < 500*time.Second {
		t.Errorf("a thousand bytes at one a second: %v behind", behind)
	}
	f.UpdateSingle(nil)
	if behind := g.Behind(); behind != 0 {
		t.Errorf("without a limit: %v behind", behind)
	}
}

// TestArtifactsAreLimited: the size of artifacts is limited in both directions, and that of other calls is not.
func TestArtifactsAreLimited(t *testing.T) {
	t.Parallel()
	f, end := newFilter()
	defer end()
	for method, limited := range map[call.Method]bool{call.UploadInputArtifact: true, call.DownloadOutputArtifact: true,
		call.Invoke: false, call.StreamInvoke: false} {
		c, stream := callOf(&tenant.Settings{ID: "acme", Limits: tenant.Limits{ArtifactSize: 1 << 20}})
		c.Info.Method = method
		if f.Admit(c, &bandwidth.State{}); (stream.Limits.Bytes > 0) != limited {
			t.Errorf("%v: %+v", method, stream.Limits)
		}
	}
}

// callOf returns a call of a tenant that uploads.
func callOf(settings *tenant.Settings) (*filter.Call, *filtertest.Stream) {
	c, stream := filtertest.NewCall()
	c.Principal.Settings, c.Info.Method = settings, call.UploadInputArtifact
	return c, stream
}

// TestOneGroupForATenant: all streams of a tenant share one group, and other tenants have groups of their own.
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

// TestFlowsAreDropped: if there are too many tenants, each gets a new group, even with the same settings. Two filters
// never share a group.
func TestFlowsAreDropped(t *testing.T) {
	t.Parallel()
	f, end := newFilter()
	defer end()
	acme := &tenant.Settings{ID: "acme"}
	group := f.GroupOf(acme)
	if f.GroupOf(acme) != group || f.GroupOf(&tenant.Settings{ID: "acme"}) != group {
		t.Error("a tenant's second call has another group")
	}
	for i := range 1 << 16 {
		f.GroupOf(&tenant.Settings{ID: fmt.Sprint(i)})
	}
	if f.GroupOf(acme) == group {
		t.Error("a dropped group is used")
	}
	other, end := newFilter()
	defer end()
	if other.GroupOf(acme) == f.GroupOf(acme) {
		t.Error("two gateways have one group")
	}
}

// TestMemory: a call is charged to its tenant, and rejected if the tenant has no memory left.
func TestMemory(t *testing.T) {
	t.Parallel()
	f, end := newFilter()
	defer end()
	c, stream := callOf(&tenant.Settings{ID: "acme"})
	if refusal := f.Charge(c); refusal != nil || stream.Groups[0] != f.GroupOf(c.Principal.Settings) {
		t.Errorf("%+v; the groups are %v, want %v", refusal, stream.Groups, f.GroupOf(c.Principal.Settings))
	}
	stream.Full = true
	if refusal := f.Charge(c); refusal != filter.OverMemoryShare || c.Shed != overload.Pools {
		t.Errorf("%+v; shed %q", refusal, c.Shed)
	}
}

// TestUnlimited: without tenants and limits, the relay does not count. It counts as soon as a limit is set.
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

// The tenant's artifacts may have one mebibyte. The relay's limit is higher, because messages contain more than the
// bytes of the artifact.
func Example() {
	f, end := newFilter()
	defer end()
	settings := &tenant.Settings{ID: "acme", Limits: tenant.Limits{ArtifactSize: 1 << 20}}
	c, stream := callOf(settings)
	c.Principal.Metrics = nil // no metrics
	s := &bandwidth.State{}
	f.Admit(c, s)
	fmt.Println(stream.Limits.Bytes > 1<<20, f.Exceeded(c, s, relay.TooManyBytes))
	fmt.Println(f.Explain(s, relay.TooManyBytes).Reason)
	// Output:
	// true true
	// ARTIFACT_TOO_LARGE
}
