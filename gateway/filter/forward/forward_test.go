package forward_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/forward"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// seen records the notifications of the filter.
type seen struct {
	begun    int
	mentions []affinity.Mention
}

func (s *seen) Begin(*telemetry.CapabilityMetrics, *telemetry.TenantMetrics, uint32) { s.begun++ }

func (s *seen) Learn(m affinity.Mention) { s.mentions = append(s.mentions, m) }

// picked returns a call in the doc dialect whose endpoint speaks another.
func picked(m call.Method, d call.Dialect) (*filter.Call, *filtertest.Stream) {
	c, stream := filtertest.NewCall()
	path, _ := dialect.Path(m, call.Doc)
	c.Spoken, _ = dialect.Lookup(path)
	c.Info.Method, c.Info.Path, c.Info.Dialect = m, path, call.Doc
	c.Fleet = filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1", "b:1"), Dialect: d,
		Affinity: router.Affinity{Artifacts: true}})
	c.Endpoint = c.Fleet.Backends[0]
	c.Endpoint.Attached = &relay.Upstream{}
	return c, stream
}

// TestPath: a call gets the path of its endpoint's dialect, and each attempt counts it in flight once.
func TestPath(t *testing.T) {
	t.Parallel()
	for d, change := range map[call.Dialect]bool{call.Doc: false, call.Live: true} {
		told := &seen{}
		c, stream := picked(call.Invoke, d)
		var s forward.State
		for range 2 {
			step := forward.New(told, told, nil).ByDialect().Admit(c, &s)
			if step != filter.Stop || c.Answer().Upstream == nil {
				t.Fatalf("step %d, upstream %v", step, c.Answer().Upstream)
			}
		}
		want, _ := dialect.Path(call.Invoke, d)
		if !change {
			want = ""
		}
		if stream.Path != want || told.begun != 1 || !c.InFlight {
			t.Errorf("%s: path %q, %d begun, in flight %t", d, stream.Path, told.begun, c.InFlight)
		}
	}
}

// TestClient: only a trusted proxy's statement about the client is forwarded to the backend.
func TestClient(t *testing.T) {
	t.Parallel()
	for told, want := range map[bool]string{true: "10.0.0.1", false: ""} {
		c, stream := picked(call.Invoke, call.Doc)
		c.Client.Address, c.Details.Told = "10.0.0.1", told
		forward.New(&seen{}, &seen{}, nil).ByDialect().Admit(c, &forward.State{})
		if got, _ := stream.Header("x-forwarded-for"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// message returns a gRPC message with its prefix.
func message(t testing.TB, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	check.Must(t, err)
	return append([]byte{0, byte(len(b) >> 24), byte(len(b) >> 16), byte(len(b) >> 8), byte(len(b))}, b...)
}

// TestResponse: the filter reads the tool's outcome from the response.
func TestResponse(t *testing.T) {
	t.Parallel()
	for failure, want := range map[string]telemetry.Outcome{"": telemetry.Succeeded, "no rain": telemetry.ToolError} {
		c, stream := picked(call.Invoke, call.Doc)
		f := forward.New(&seen{}, &seen{}, nil).ByDialect()
		var s forward.State
		f.Admit(c, &s)
		stream.Tap.Body(message(t, &docpb.InvokeResponse{ResultJson: []byte(`{}`), Error: failure}))
		f.Done(c, &s, &filter.Result{Result: &relay.Result{}, Final: true})
		if c.Outcome != want {
			t.Errorf("%q: %s", failure, c.Outcome)
		}
		if s = s.Keep(); s != (forward.State{}) && c.Outcome == telemetry.NoOutcome {
			t.Error("nothing is kept")
		}
	}
}

// TestFurtherAttempt: the path is set again, because an earlier attempt may have used another one.
func TestFurtherAttempt(t *testing.T) {
	t.Parallel()
	c, stream := picked(call.Invoke, call.Doc)
	c.Attempt.Past = 1
	forward.New(&seen{}, &seen{}, nil).ByDialect().Admit(c, &forward.State{})
	if want, _ := dialect.Path(call.Invoke, call.Doc); stream.Path != want {
		t.Errorf("path %q, want %q", stream.Path, want)
	}
}

// TestTenantOfLocalUpstreams: code in the process that serves as a backend gets the tenant, whatever the call claims.
// Other backends do not.
func TestTenantOfLocalUpstreams(t *testing.T) {
	t.Parallel()
	r := relay.New(relay.Config{}, nil, http.NotFoundHandler())
	check.Cleanup(t, r.Close)
	for want, upstream := range map[string]*relay.Upstream{
		"acme": r.NewUpstream(relay.UpstreamConfig{Serve: func(*relay.ServerStream) relay.Status {
			return relay.Status{}
		}}),
		"": r.NewUpstream(relay.UpstreamConfig{Addr: "a:1"}),
	} {
		c, stream := picked(call.Invoke, call.Doc)
		c.Info.Tenant, c.Endpoint.Attached = "acme", upstream
		forward.New(&seen{}, &seen{}, nil).ByDialect().Admit(c, &forward.State{})
		if got, _ := stream.Header(filter.TenantHeader); got != want {
			t.Errorf("tenant %q, want %q", got, want)
		}
	}
}

// TestArtifacts: artifacts named in a response belong to its backend and tenant, except those that the call itself
// names. Only the response to an upload is authoritative. A truncated response does not affect the next call that
// reuses its memory.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	told := &seen{}
	f := forward.New(told, told, nil).ByDialect()
	var s forward.State
	respond := func(m call.Method, body []byte) {
		c, stream := picked(m, call.Doc)
		c.Info.Tenant, c.Artifacts.IDs = "acme", []string{"named"}
		f.Admit(c, &s)
		stream.Tap.Body(body)
		f.Done(c, &s, &filter.Result{Result: &relay.Result{}, Final: true})
		s = s.Keep()
	}
	result := func(text string) *docpb.InvokeResponse { return &docpb.InvokeResponse{ResultJson: []byte(text)} }
	cut := message(t, result(`{"capability_artifact_id":"cut"}`))
	respond(call.Invoke, cut[:len(cut)-2])
	respond(call.Invoke, message(t, result(`off","x":{"capability_artifact_id":"one"}}`)))
	respond(call.Invoke, message(t, result(`[{"capability_artifact_id":"named"},{"capability_artifact_id":"two"}]`)))
	respond(call.UploadInputArtifact, message(t, &docpb.UploadInputArtifactResponse{CapabilityArtifactId: "three"}))
	respond(call.Invoke, message(t, result(`{"capability_artifact_id":"four"}`)))
	var got []string
	for _, m := range told.mentions {
		got = append(got, m.ID)
		if m.Tenant != "acme" || m.Backend.Addr != "a:1" || m.Authoritative != (m.ID == "three") || m.OwnedOnly {
			t.Errorf("%+v", m)
		}
	}
	if want := []string{"one", "two", "three", "four"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Example: a call of a service without dialects keeps its path.
func Example() {
	c, stream := picked(call.Invoke, call.Live)
	forward.New(&seen{}, &seen{}, nil).Admit(c, &forward.State{})
	fmt.Println(stream.Path == "", c.Answer().Upstream != nil)
	// Output: true true
}
