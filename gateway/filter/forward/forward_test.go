package forward_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/forward"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// seen has what the filter has told of calls.
type seen struct {
	begun    int
	mentions []string
}

func (s *seen) Begin(*telemetry.CapabilityMetrics, *telemetry.TenantMetrics, uint32) { s.begun++ }
func (s *seen) Learn(m affinity.Mention) {
	s.mentions = append(s.mentions,
		m.ID)
}

// picked is a call in the doc dialect whose endpoint speaks another.
func picked(m call.Method, d call.Dialect) (*filter.Call, *filtertest.Stream) {
	c, stream := filtertest.NewCall()
	path, _ := dialect.Path(m, call.Doc)
	c.Spoken, _ = dialect.Lookup(path)
	c.Info.Method, c.Info.Path, c.Info.Dialect = m, path, call.Doc
	c.Fleet = filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1"), Dialect: d})
	c.Endpoint = c.Fleet.Backends[0]
	c.Endpoint.Attached = &relay.Upstream{}
	return c, stream
}

// TestPath: a call has the path of its endpoint's dialect, and each attempt counts it in flight once.
func TestPath(t *testing.T) {
	t.Parallel()
	for d, change := range map[call.Dialect]bool{call.Doc: false, call.Live: true} {
		told := &seen{}
		c, stream := picked(call.Invoke, d)
		var s forward.State
		for range 2 {
			if step := forward.New(told, told, true).Admit(c, &s); step != filter.Stop || c.Answer().Upstream == nil {
				t.Fatalf("step %d, upstream %v", step, c.Answer().Upstream)
			}
		}
		want, _ := dialect.Path(call.Invoke, d)
		if !change {
			want = ""
		}
		if stream.Path != want || told.begun != 1 || !c.Attempt.Started || !c.InFlight {
			t.Errorf("%s: path %q, %d begun, started %t, in flight %t", d, stream.Path, told.begun,
				c.Attempt.Started, c.InFlight)
		}
	}
}

// TestClient: only what a trusted proxy has said of the client goes to the backend.
func TestClient(t *testing.T) {
	t.Parallel()
	for told, want := range map[bool]string{true: "10.0.0.1", false: ""} {
		c, stream := picked(call.Invoke, call.Doc)
		c.Client = filter.Client{Address: "10.0.0.1", Told: told}
		forward.New(&seen{}, &seen{}, true).Admit(c, &forward.State{})
		if got, _ := stream.Header("x-forwarded-for"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// message is a gRPC message in its frame.
func message(t testing.TB, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{0, byte(len(b) >> 24), byte(len(b) >> 16), byte(len(b) >> 8), byte(len(b))}, b...)
}

// TestResponse: the response says how the tool has ended.
func TestResponse(t *testing.T) {
	t.Parallel()
	for failure, want := range map[string]telemetry.Outcome{"": telemetry.Succeeded, "no rain": telemetry.ToolError} {
		c, stream := picked(call.Invoke, call.Doc)
		f := forward.New(&seen{}, &seen{}, true)
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

// Example: a call of a service that has no dialects goes on by its own path.
func Example() {
	c, stream := picked(call.Invoke, call.Live)
	forward.New(&seen{}, &seen{}, false).Admit(c, &forward.State{})
	fmt.Println(stream.Path == "", c.Answer().Upstream != nil)
	// Output: true true
}
