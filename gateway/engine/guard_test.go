package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/engine/turns"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
)

const clients = guard.Prefix + "ClientService/"

// fakeEngine answers calls from memory: a response for each path, or the events of a message.
type fakeEngine struct {
	responses map[string]proto.Message // by path; missing: NOT_FOUND
	failures  map[string][]error       // of the first calls, by path
	page      func() proto.Message     // the response of each ListSessions; nil means that of responses
	events    []proto.Message
	keeps     bool     // streams stay after their events, until the guard ends them
	got       []string // paths, in order
}

// Invoke implements grpc.ClientConnInterface.
func (e *fakeEngine) Invoke(_ context.Context, path string, _, reply any, _ ...grpc.CallOption) error {
	e.got = append(e.got, path)
	if failures := e.failures[path]; len(failures) > 0 {
		e.failures[path] = failures[1:]
		return failures[0]
	}
	msg := e.responses[path]
	if path == clients+"ListSessions" && e.page != nil {
		msg = e.page()
	}
	if msg == nil {
		return status.Error(codes.NotFound, "the engine has none")
	}
	raw, err := proto.Marshal(msg)
	*reply.(*[]byte) = raw
	return err
}

// NewStream implements grpc.ClientConnInterface.
func (e *fakeEngine) NewStream(ctx context.Context, _ *grpc.StreamDesc, path string, _ ...grpc.CallOption) (
	grpc.ClientStream, error) {
	e.got = append(e.got, path)
	return &fakeStream{ctx: ctx, events: e.events, keeps: e.keeps}, nil
}

// kept is the time for which an engine keeps a stream that the guard does not end.
const kept = 2 * time.Hour

// fakeStream has the events of a message.
type fakeStream struct {
	grpc.ClientStream
	ctx    context.Context //nolint:containedctx // grpc.ClientStream has one
	events []proto.Message
	keeps  bool
}

func (s *fakeStream) Context() context.Context { return s.ctx }
func (*fakeStream) SendMsg(any) error          { return nil }
func (*fakeStream) CloseSend() error           { return nil }

func (s *fakeStream) RecvMsg(m any) error {
	if len(s.events) == 0 && s.keeps {
		select {
		case <-s.ctx.Done():
			return status.FromContextError(s.ctx.Err()).Err()
		case <-time.After(kept):
		}
	}
	if len(s.events) == 0 {
		return io.EOF
	}
	raw, err := proto.Marshal(s.events[0])
	*m.(*[]byte), s.events = raw, s.events[1:]
	return err
}

// caller is the stream of a call: a request, and the messages that the guard has sent.
type caller struct {
	grpc.ServerStream
	ctx     context.Context //nolint:containedctx // grpc.ServerStream has one
	request proto.Message
	got     [][]byte
}

func (c *caller) Context() context.Context { return c.ctx }

func (c *caller) RecvMsg(m any) (err error) {
	*m.(*[]byte), err = proto.Marshal(c.request)
	return err
}

func (*caller) SetHeader(metadata.MD) error { return nil }

func (c *caller) SendMsg(m any) error {
	c.got = append(c.got, *m.(*[]byte))
	return nil
}

// method is a grpc.ServerTransportStream that knows its method alone.
type method struct {
	grpc.ServerTransportStream
	path string
}

func (m method) Method() string { return m.path }

// owners are sessions and their tenants.
type owners map[string]string

// Claim implements guard.Sessions.
func (o owners) Claim(_ context.Context, _, session, tenant string) (string, bool, error) {
	if o[session] == "" {
		o[session] = tenant
		return tenant, true, nil
	}
	return o[session], false, nil
}

// Owners implements guard.Sessions.
func (o owners) Owners(_ context.Context, _ string, sessions []string) ([]string, error) {
	got := make([]string, len(sessions))
	for i, s := range sessions {
		got[i] = o[s]
	}
	return got, nil
}

// guarded is a Guard of a fake engine, and a call for it.
type guarded struct {
	engine fakeEngine
	owners owners
	shared guard.Shared // what is shared besides the turns; without Sessions: owners
	off    bool         // engines are not configured
	stops  error        // no new work that would outlive its call is accepted; nil accepts it
	call   guard.Call
}

func newGuarded() *guarded {
	var settings guard.Settings
	config.SetDefaults(&settings)
	return &guarded{owners: owners{"mine": "acme", "theirs": "rival"}, call: guard.Call{Sent: func() {},
		Tenant: "acme", MultiTenant: true, Fleet: "assistant", Backend: "b:1", MaxDuration: time.Hour,
		Settings: &settings, Failed: func(bool) {},
	}}
}

// serve has the Guard serve one call, with pairs of metadata.
func (e *guarded) serve(ctx context.Context, path string, req proto.Message, md ...string) ([][]byte, error) {
	g, stop := e.start()
	defer stop()
	c := newCaller(ctx, path, req, md...)
	err := g.Serve(nil, c)
	return c.got, err
}

// start starts a Guard. stop waits for what outlives its calls.
func (e *guarded) start() (g *guard.Guard, stop func()) {
	shared := e.shared
	if shared.Sessions == nil {
		shared.Sessions = e.owners
	}
	if !e.off {
		shared.Turns = turns.New(&lent{has: map[string]string{}, until: map[string]time.Time{}}, turns.Options{})
	}
	var running sync.WaitGroup
	g = guard.New(guard.Config{Shared: shared, Conn: &e.engine, Internal: &e.engine,
		Call:     func(context.Context) *guard.Call { p := e.call; return &p },
		Continue: func(ctx context.Context) (context.Context, []grpc.CallOption) { return ctx, nil },
		Subrequest: func(ctx context.Context, _, _ string) (context.Context, []grpc.CallOption) {
			return ctx, nil
		},
		Detach: func(ctx context.Context, f func(context.Context)) error {
			if e.stops == nil {
				running.Go(func() { f(context.WithoutCancel(ctx)) })
			}
			return e.stops
		},
		Refuse: func(_ context.Context, r *call.Refusal) error { return r },
		Log:    slog.New(slog.DiscardHandler),
	})
	return g, func() {
		running.Wait()
		g.Close()
		if shared.Turns != nil {
			shared.Turns.Close()
		}
	}
}

// newCaller returns the stream of a call of a method, with pairs of metadata.
func newCaller(ctx context.Context, path string, req proto.Message, md ...string) *caller {
	ctx = grpc.NewContextWithServerTransportStream(metadata.NewIncomingContext(ctx, metadata.Pairs(md...)),
		method{path: path})
	return &caller{ctx: ctx, request: req}
}

// TestGuardRejects calls before their engine gets them.
func TestGuardRejects(t *testing.T) {
	t.Parallel()
	message := func(session string) proto.Message {
		return &parallaxpb.ClientMessageRequest{SessionId: session, Content: "hello"}
	}
	for name, test := range map[string]struct {
		path    string
		request proto.Message
		md      []string
		change  func(*guarded)
		want    string
	}{
		"no engines": {clients + "SendMessage", message("mine"), nil, func(e *guarded) { e.off = true }, "ENGINE_OFF"},
		"a fleet that is none of engines any more": {clients + "SendMessage", message("mine"), nil,
			func(e *guarded) { e.call.Settings = nil }, "SERVICE_UNAVAILABLE"},
		"another method": {clients + "GetStatus", message(""), nil, nil, "SERVICE_UNAVAILABLE"},
		"an unknown numbering": {clients + "SendMessage", message("mine"), []string{guard.ModesHeader, "mine"}, nil,
			"SESSION_MODE_INVALID"},
		"two numberings": {clients + "SendMessage", message("mine"),
			[]string{guard.ModesHeader, "seed", guard.ModesHeader, "seed"}, nil, "SESSION_MODE_INVALID"},
		"a message of another tenant's session": {clients + "SendMessage", message("theirs"), nil,
			func(e *guarded) { e.call.Session = "theirs" }, "ENGINE_SESSION_UNKNOWN"},
		"the history of another tenant's session": {clients + "GetHistory",
			&parallaxpb.GetHistoryRequest{SessionId: "theirs"}, nil, nil, "ENGINE_SESSION_UNKNOWN"},
		"a negative page": {clients + "ListSessions", &parallaxpb.ListSessionsRequest{Limit: -1}, nil, nil,
			"REQUEST_MALFORMED"},
	} {
		e := newGuarded()
		if test.change != nil {
			test.change(e)
		}
		_, err := e.serve(t.Context(), test.path, test.request, test.md...)
		var refusal *call.Refusal
		if !errors.As(err, &refusal) || refusal.Reason != test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
		if len(e.engine.got) > 0 {
			t.Errorf("%s: the engine got %v", name, e.engine.got)
		}
	}
}

// TestGuardedMessage passes an engine's events on, and a tenant's first message makes the session its own.
func TestGuardedMessage(t *testing.T) {
	t.Parallel()
	e := newGuarded()
	e.call.Session = "new"
	failed := true
	e.call.Failed = func(f bool) { failed = f }
	e.engine.events = []proto.Message{
		&parallaxpb.PipelineEvent{},
		&parallaxpb.PipelineEvent{SessionId: "new", EventType: parallaxpb.PipelineEventType_RESPONSE_COMPLETE},
	}
	got, err := e.serve(t.Context(), clients+"SendMessage",
		&parallaxpb.ClientMessageRequest{SessionId: "new", Content: "hello"})
	if err != nil || failed {
		t.Errorf("%v, failed %t", err, failed)
	}
	if len(got) != len(e.engine.events) {
		t.Fatalf("it got %d events", len(got))
	}
	for i, want := range e.engine.events {
		var event parallaxpb.PipelineEvent
		if err := proto.Unmarshal(got[i], &event); err != nil || !proto.Equal(&event, want) {
			t.Errorf("event %d: %v, %v", i, &event, err)
		}
	}
	if e.owners["new"] != "acme" {
		t.Errorf("the sessions' owners: %v", e.owners)
	}
}

// Example: of an engine's sessions a tenant sees its own.
func Example() {
	e := newGuarded()
	e.engine.responses = map[string]proto.Message{clients + "ListSessions": &parallaxpb.ListSessionsResponse{
		Sessions: []*parallaxpb.SessionInfo{{Id: "mine"}, {Id: "theirs"}},
	}}
	got, err := e.serve(context.Background(), clients+"ListSessions", &parallaxpb.ListSessionsRequest{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var list parallaxpb.ListSessionsResponse
	err = proto.Unmarshal(got[0], &list)
	for _, s := range list.GetSessions() {
		fmt.Println(s.GetId(), err)
	}
	// Output: mine <nil>
}
