package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// sluggish is a capability that does not read a tool's arguments until the test says so.
type sluggish struct {
	took chan string // letIn for each call, and what else the test sends
	read func()
	may  chan struct{}
}

// letIn marks that a call has reached the capability.
const letIn = "let in"

func newSluggish() *sluggish {
	s := &sluggish{took: make(chan string, 1000), may: make(chan struct{})}
	s.read = sync.OnceFunc(func() { close(s.may) })
	return s
}

func (s *sluggish) serve(t *testing.T) (addr string) {
	t.Helper()
	t.Cleanup(s.read)
	desc := docpb.Capability_ServiceDesc
	desc.Methods = slices.DeleteFunc(slices.Clone(desc.Methods),
		func(m grpc.MethodDesc) bool { return m.MethodName == "Invoke" })
	desc.Streams = append(slices.Clone(desc.Streams),
		grpc.StreamDesc{StreamName: "Invoke", ClientStreams: true, ServerStreams: true, Handler: s.invoke})
	return gatewaytest.Serve(t, func(server *grpc.Server) {
		server.RegisterService(&desc,
			gatewaytest.NewCapability("slow"))
	},
		grpc.InitialWindowSize(64<<10), grpc.InitialConnWindowSize(1<<30)).Addr
}

func (s *sluggish) invoke(_ any, stream grpc.ServerStream) error {
	select {
	case s.took <- letIn:
	case <-s.may:
	}
	<-s.may
	if err := stream.RecvMsg(new(docpb.InvokeRequest)); err != nil {
		return err
	}
	return stream.SendMsg(&docpb.InvokeResponse{ResultJson: []byte("{}")})
}

// door is a way to call a tool with a key; it returns OK or the reason of the failure.
type door func(ctx context.Context, key, capability, args string) string

func grpcDoor(client docpb.CapabilityClient) door {
	return func(ctx context.Context, key, capability, args string) string {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
		_, err := client.Invoke(ctx, &docpb.InvokeRequest{CapabilityId: capability, ToolName: gatewaytest.Echo,
			ArgsJson: []byte(args)})
		if err == nil {
			return "OK"
		}
		return fmt.Sprint(status.Code(err), " ", clienttest.Reason(err))
	}
}

func jsonDoor(addr string) door { return jsonDoorOf(clienttest.HTTP, addr) }

func jsonDoorOf(client *http.Client, addr string) door {
	return func(ctx context.Context, key, capability, args string) string {
		body := []byte(`{"tool_name":"` + gatewaytest.Echo + `","args":` + args + `}`)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost,
			"http://"+addr+"/v1/capabilities/"+capability+"/invoke", bytes.NewReader(body))
		if err != nil {
			return err.Error()
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := client.Do(req)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		if resp.Header.Get("Retry-After") != "" && strings.Contains(string(text), `"OVERLOADED"`) {
			return http.StatusText(resp.StatusCode) + " OVERLOADED"
		}
		return http.StatusText(resp.StatusCode)
	}
}

// isTooMuch reports whether this is the error of a tenant over its share, or of every tenant in an overload.
func isTooMuch(answer string) bool {
	code, ok := strings.CutSuffix(answer, " OVERLOADED")
	return ok && slices.Contains([]string{"ResourceExhausted", "Unavailable", "Too Many Requests",
		"Service Unavailable"}, code)
}

// TestShortOfMemory: a tenant sends large calls to a capability that does not read them, until the process has
// no memory left for any. Another tenant is served meanwhile, and the first again when memory is free.
func TestShortOfMemory(t *testing.T) {
	t.Parallel()
	const enough = 20 // number that are rejected
	slow, quick := newSluggish(), gatewaytest.NewCapability("quick").Serve(t, call.Doc)
	acme, ofAcme := makeKey(t)
	globex, ofGlobex := makeKey(t)
	file := writeConfig(t, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\noverload: {max_memory: 64MiB, max_delay: "+
		"10s}\ntenants:\n"+
		"  - {id: acme, capabilities: ['*'], keys: ["+ofAcme+"]}\n  - {id: globex, capabilities: ['*'], keys: ["+
		ofGlobex+"]}\n"+
		fmt.Sprintf("fleets:\n  - {capability: slow, policy: allow, backends: ['%s']}\n  - {capability: quick, "+
			"policy: allow, backends: ['%s']}\n", slow.serve(t), quick.Addr))
	p, public, admin := serve(t, nil, "--config", file)
	all := []door{grpcDoor(dial(t, public)), jsonDoor(public), grpcDoor(dial(t, public)), jsonDoor(public)}

	large := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	var flood, others sync.WaitGroup
	var served atomic.Int64
	flooded := make(chan struct{})
	for _, call := range all[:2] {
		others.Go(func() {
			for open := true; open; {
				if got := call(t.Context(), globex, "quick", "{}"); got != "OK" {
					t.Errorf("another's call: %s", got)
				}
				served.Add(1)
				select {
				case <-flooded:
					open = false
				default:
				}
			}
		})
	}
	endOthers := sync.OnceFunc(func() {
		close(flooded)
		others.Wait()
	})
	defer endOthers()
	held, shed, lost := 0, 0, 0
	for n := 0; shed < enough; n++ {
		call := all[n%len(all)]
		flood.Go(func() { slow.took <- call(context.Background(), acme, "slow", large) })
		if n < len(all) { // concurrent calls
			continue
		}
		switch got := check.Received(t, slow.took, "a large call to be let in, or turned away"); {
		case got == letIn:
			held++
		case isTooMuch(got):
			shed++
		case lost < enough && strings.HasSuffix(got, "connection reset by peer"):
			lost++ // TCP drops the response to a client that still sends, and is half a second late to read
		default:
			t.Fatalf("a large call: %s", got)
		}
	}
	endOthers()
	_, metrics := page(t, "http://"+admin+"/metrics")
	t.Logf("%d large calls were admitted, %d rejected; %d others were served", held, shed, served.Load())
	if n := metric(t, metrics, `capgate_shed_total{tenant="globex"}`); n != 0 {
		t.Errorf("%v calls of the other tenant were rejected", n)
	}
	slow.read()
	flood.Wait()
	check.Until(t, "a call when there is memory again", func() (bool, string) {
		got := all[0](t.Context(), acme, "slow", large)
		if got != "OK" && !isTooMuch(got) {
			t.Fatalf("when there is memory again: %s", got)
		}
		return got == "OK", got
	})
	p.stop(t)
}
