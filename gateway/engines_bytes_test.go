package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
)

// rawEngine serves every method with the same response until the test ends.
func rawEngine(t *testing.T, serve grpc.StreamHandler) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(serve))
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	check.Cleanup(t, func() {
		server.Stop()
		if err := check.Received(t, served, "the end of serving"); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// TestBytesOfEnginesAreUntouched: bytes that need no change pass unchanged, whether or not the engine is
// guarded.
func TestBytesOfEnginesAreUntouched(t *testing.T) {
	t.Parallel()
	b := &recordingBackend{}
	addr := rawEngine(t, b.serve)
	e := startEngines(t, &guard.Settings{Queue: 1}, engine.Config{},
		func(o *gatewaytest.Options) { o.Fleets[0].Backends = []string{addr} })
	conn := e.gateway.Conn(t)
	const complete = "\x18\x0a" // event_type: 10
	for method, test := range map[string]struct{ requests, answers [][]byte }{
		"ClientService/SendMessage": {
			[][]byte{newer(text(2, "s"), []byte{3 << 3, 2}, text(1, "hello"))},
			[][]byte{newer(text(1, "s"), text(17, "no token")), newer([]byte(complete), text(2, "m"))},
		},
		"AgentService/RunSession": {[][]byte{odd(longText(1, "ready")), odd(), odd(longText(2, "\xfe"))},
			[][]byte{odd(longText(5, "")), odd(longText(9, "what is that"))}},
		"ClientService/GetHistory": {[][]byte{newer(text(1, "s"))},
			[][]byte{newer(text(1, string(newer(text(2, "s")))))}},
		"SubAgentService/SubAgentPollMessage": {[][]byte{odd(longText(1, "token"))},
			[][]byte{odd(longText(3, "message"))}},
		"ClientService/GetStatus": {[][]byte{odd()}, [][]byte{odd(longText(1, "Atlas"))}},
		"ShieldService/Evaluate":  {[][]byte{odd(longText(2, "{}"))}, [][]byte{odd(longText(1, ""))}},
	} {
		b.mu.Lock()
		b.answer = test.answers
		b.mu.Unlock()
		stream, err := conn.NewStream(to(patient(t), "engine-1"),
			&grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/openparallax.v1."+method,
			grpc.ForceCodec(rawCodec{}))
		check.Must(t, err)
		for i := range test.requests {
			check.Must(t, stream.SendMsg(&test.requests[i]))
		}
		check.Must(t, stream.CloseSend())
		var got [][]byte
		for {
			var msg []byte
			if err := stream.RecvMsg(&msg); err != nil {
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: %v", method, err)
				}
				break
			}
			got = append(got, msg)
		}
		b.mu.Lock()
		sent := b.got
		b.mu.Unlock()
		if string(bytes.Join(sent, []byte{'|'})) != string(bytes.Join(test.requests, []byte{'|'})) {
			t.Errorf("%s: the engine got %x", method, sent)
		}
		if string(bytes.Join(got, []byte{'|'})) != string(bytes.Join(test.answers, []byte{'|'})) {
			t.Errorf("%s: the client got %x", method, got)
		}
	}
}

// TestQueueOfAnEngine: the queue of messages for an engine is bounded.
func TestQueueOfAnEngine(t *testing.T) {
	t.Parallel()
	e := startEngines(t, &guard.Settings{Queue: 1}, engine.Config{})
	received, let := make(chan struct{}, 3), make(chan struct{})
	e.attend(t, agent.Config{
		Received: func(*parallaxpb.ProcessRequest) { received <- struct{}{} },
		Think:    func(context.Context, *parallaxpb.ProcessRequest) { <-let },
	})
	ended := make(chan error, 3)
	say := func() {
		_, err := e.say(patient(t), "s", "hello")
		ended <- err
	}
	go say()
	check.Received(t, received, "the first to be there")
	go say()
	go say() // one of the two waits
	err := check.Received(t, ended, "the end of the call")
	if status.Code(err) != codes.ResourceExhausted || errorInfo(err).GetReason() != "ENGINE_QUEUE_FULL" {
		t.Errorf("the third: %v", err)
	}
	checkProgress(t, err, true)
	count := func(want map[string]float64) {
		t.Helper()
		got := e.gateway.Metrics(t)
		for series, n := range want {
			if got[series] != n {
				t.Errorf("%s = %v, want %v", series, got[series], n)
			}
		}
	}
	count(map[string]float64{
		`capgate_engine_messages_waiting{capability="engine-1"}`: 1,
		`capgate_engine_messages_running{capability="engine-1"}`: 1, `capgate_engine_agents{capability="engine-1"}`: 1,
		`capgate_engine_turns_total{capability="engine-1",result="full"}`:   1,
		`capgate_tenant_engine_turns_total{result="full",tenant="default"}`: 1,
	})
	close(let)
	for range 2 {
		if err := check.Received(t, ended, "the end of the call"); err != nil {
			t.Error(err)
		}
	}
	count(map[string]float64{
		`capgate_engine_messages_waiting{capability="engine-1"}`:            0,
		`capgate_engine_turns_total{capability="engine-1",result="came"}`:   2,
		`capgate_tenant_engine_turns_total{result="came",tenant="default"}`: 2,
		`capgate_engine_turn_wait_seconds_count{capability="engine-1"}`:     2,
	})
}

// TestEnginesByAuthority: clients name an engine by the authority they dial and send nothing else.
func TestEnginesByAuthority(t *testing.T) {
	t.Parallel()
	e := startEngines(t, &guard.Settings{Queue: 1}, engine.Config{}, func(o *gatewaytest.Options) {
		o.Fleets[0].Services, o.Domains = nil, []string{"caps.example.com"}
	})
	named := parallaxpb.NewClientServiceClient(e.gateway.Conn(t, grpc.WithAuthority("engine-1.caps.example.com")))
	if status, err := named.GetStatus(patient(t), &parallaxpb.StatusRequest{}); err != nil ||
		status.GetAgentName() != "Atlas" {
		t.Errorf("%v, %v; status %+v", status, err, status)
	}
	if _, err := named.ListSessions(patient(t), &parallaxpb.ListSessionsRequest{}); err != nil {
		t.Error(err)
	}
	other := parallaxpb.NewClientServiceClient(e.gateway.Conn(t, grpc.WithAuthority("engine-2.caps.example.com")))
	if _, err := other.GetStatus(patient(t), &parallaxpb.StatusRequest{}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
}

// TestBytesAfterTheLastEventAreIgnored: bytes after the last event change nothing, and the call does not wait for an
// engine that keeps its stream open.
func TestBytesAfterTheLastEventAreIgnored(t *testing.T) {
	t.Parallel()
	// RESPONSE_COMPLETE, ERROR
	for last, want := range map[string]string{"\x18\x0a": "success", "\x18\x0d": "tool_error"} {
		addr := rawEngine(t, func(_ any, s grpc.ServerStream) error {
			for _, event := range []string{"\x0a\x01s", last, "\x0a\x01s\x18\x10"} {
				msg := []byte(event)
				if err := s.SendMsg(&msg); err != nil {
					return err
				}
			}
			<-s.Context().Done()
			return nil
		})
		e := startEngines(t, &guard.Settings{Queue: 1}, engine.Config{},
			func(o *gatewaytest.Options) { o.Fleets[0].Backends = []string{addr} })
		for range 2 { // the second one runs
			stream, err := e.client.SendMessage(patient(t), &parallaxpb.ClientMessageRequest{Content: "hello"})
			check.Must(t, err)
			if events, err := receiveAll(stream); err != nil || len(events) < 2 {
				t.Errorf("got %v, %v", events, err)
			}
		}
		for _, line := range e.gateway.Log.Calls(t, 2) {
			if got := line.Text("code") + " " + line.Text("outcome"); got != "OK "+want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	}
}
