package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy/approvals"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// withKeys authenticates keys of the tenants acme and globex, to which everything is granted.
func withKeys(t *testing.T, r *keyring) func(*gatewaytest.Options) {
	keys := tenant.NewKeys(nil)
	keys.Replace(r.keys, settings(t, map[string][]string{"acme": {"*"}, "globex": {"*"}}), nil)
	return func(o *gatewaytest.Options) { o.Authenticator = keys }
}

// direct returns a connection that bypasses the gateway, until the test ends.
func direct(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := clienttest.NewConn("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	return conn
}

// attendDirectly connects an agent to its engine, bypassing the gateway.
func attendDirectly(t *testing.T, addr string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	conn := direct(t, addr)
	go func() { ended <- agent.Run(ctx, conn, agent.Config{Ready: func() { close(ready) }}) }()
	check.Cleanup(t, func() {
		stop()
		if err := check.Received(t, ended, "the end of the call"); err != nil && status.Code(err) != codes.Canceled &&
			!errors.Is(err, context.Canceled) {
			t.Log("agent: ", err)
		}
	})
	check.Received(t, ready, "the agent to be connected")
}

func sessionsOf(ctx context.Context, t *testing.T, c parallaxpb.ClientServiceClient,
	r *parallaxpb.ListSessionsRequest) string {
	t.Helper()
	list, err := c.ListSessions(ctx, r)
	check.Must(t, err)
	var ids []string
	for _, s := range list.GetSessions() {
		ids = append(ids, s.GetId())
	}
	return strings.Join(ids, " ")
}

// TestEnginesOfTenants: each tenant sees its own sessions and approvals of an engine, and no others.
func TestEnginesOfTenants(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	ring.issue("a", "acme", tenant.EngineChat, nil)
	ring.issue("g", "globex", tenant.EngineChat, nil)
	e := startEngines(t, &guard.Settings{Queue: 100}, engine.Config{ApprovalIDs: true}, withKeys(t, ring))
	attendDirectly(t, e.addr)
	acme := func() context.Context { return bearer(patient(t), ring.credentials["a"]) }
	globex := func() context.Context { return bearer(patient(t), ring.credentials["g"]) }

	past := engines{client: parallaxpb.NewClientServiceClient(direct(t, e.addr))}
	if _, err := past.say(patient(t), "before", "hello"); err != nil { // without an owner, for the gateway
		t.Fatal(err)
	}
	if got, err := e.say(acme(), "mine", "hello"); err != nil || got != "You said: hello" {
		t.Fatalf("got %q, %v", got, err)
	}
	if got := sessionsOf(acme(), t, e.client, &parallaxpb.ListSessionsRequest{}); got != "mine" {
		t.Errorf("acme has %q", got)
	}
	if got := sessionsOf(globex(), t, e.client, &parallaxpb.ListSessionsRequest{Limit: 5}); got != "" {
		t.Errorf("globex has %q", got)
	}
	if h, err := e.client.GetHistory(acme(), &parallaxpb.GetHistoryRequest{SessionId: "mine"}); err != nil ||
		len(h.GetMessages()) != 2 {
		t.Errorf("got %v, %v", h, err)
	}
	stream, err := e.client.SendMessage(acme(), &parallaxpb.ClientMessageRequest{SessionId: "mine",
		Content: "approve: ls"})
	check.Must(t, err)
	var asked *parallaxpb.ApprovalNeeded
	for asked == nil {
		event, err := stream.Recv()
		check.Must(t, err)
		asked = event.GetApprovalNeeded()
	}
	if page, _, err := e.approver.List(t.Context(), "globex", approvals.Filter{}, "", 10); err != nil || len(page) > 0 {
		t.Errorf("globex has a pending approval: %v, %v", page, err)
	}
	// Another tenant's session looks like one that does not exist.
	for _, session := range []string{"mine", "before", "absent"} {
		_, err := e.client.GetHistory(globex(), &parallaxpb.GetHistoryRequest{SessionId: session})
		if status.Code(err) != codes.NotFound || errorInfo(err).GetReason() != "ENGINE_SESSION_UNKNOWN" {
			t.Errorf("history of %s: %v", session, err)
		}
		if session == "absent" {
			continue
		}
		if _, err := e.say(globex(), session, "hello"); status.Code(err) != codes.NotFound ||
			errorInfo(err).GetReason() != "ENGINE_SESSION_UNKNOWN" {
			t.Errorf("a message to %s: %v", session, err)
		}
	}
	for _, id := range []string{asked.GetApprovalId(), "absent"} {
		_, err := e.client.ResolveApproval(globex(), &parallaxpb.ApprovalResponse{ApprovalId: id, SessionId: "mine",
			Approved: true})
		if status.Code(err) != codes.NotFound || errorInfo(err).GetReason() != "ENGINE_APPROVAL_UNKNOWN" {
			t.Errorf("the approval %s: %v", id, err)
		}
	}
	if _, err := e.client.ResolveApproval(acme(), &parallaxpb.ApprovalResponse{ApprovalId: asked.GetApprovalId(),
		Approved: true}); err != nil {
		t.Error(err)
	}
	if events, err := receiveAll(stream); err != nil || events[len(events)-1].GetResponseComplete() == nil {
		t.Errorf("got %v, %v", events, err)
	}
	if got := sessionsOf(patient(t), t, past.client, &parallaxpb.ListSessionsRequest{}); got != "mine before" {
		t.Errorf("the engine has %q", got)
	}
}

// TestManySessionsOfTenants: a tenant finds its sessions among those of others, whether or not the engine
// supports pages.
func TestManySessionsOfTenants(t *testing.T) {
	t.Parallel()
	for _, ignored := range []bool{false, true} {
		ring := newKeyring()
		ring.issue("a", "acme", tenant.EngineChat, nil)
		e := startEngines(t, &guard.Settings{Queue: 100}, engine.Config{IgnorePages: ignored}, withKeys(t, ring))
		attendDirectly(t, e.addr)
		acme := func() context.Context { return bearer(patient(t), ring.credentials["a"]) }
		past := engines{client: parallaxpb.NewClientServiceClient(direct(t, e.addr))}
		for i := range 250 {
			if i%50 == 0 {
				if _, err := e.say(acme(), fmt.Sprint("mine", i), "hello"); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if _, err := past.say(patient(t), fmt.Sprint("other", i), "hello"); err != nil {
				t.Fatal(err)
			}
		}
		for r, want := range map[*parallaxpb.ListSessionsRequest]string{
			{}:                    "mine200 mine150 mine100 mine50 mine0",
			{Limit: 2}:            "mine200 mine150",
			{Limit: 2, Offset: 1}: "mine150 mine100",
			{Offset: 4}:           "mine0",
			{Offset: 5}:           "",
		} {
			if got := sessionsOf(acme(), t, e.client, r); got != want {
				t.Errorf("%v: %q, want %q", r, got, want)
			}
		}
		if _, err := e.client.ListSessions(acme(),
			&parallaxpb.ListSessionsRequest{Limit: -1}); status.Code(err) != codes.InvalidArgument {
			t.Error(err)
		}
	}
}

// TestScopesOfEngines: each scope permits its own methods of an engine, and no others.
func TestScopesOfEngines(t *testing.T) {
	t.Parallel()
	methods := map[string]tenant.Scopes{
		"ClientService/SendMessage": tenant.EngineChat, "ClientService/ResolveApproval": tenant.EngineChat,
		"ClientService/GetStatus":    tenant.EngineChat,
		"ClientService/ListSessions": tenant.EngineChat, "ClientService/GetHistory": tenant.EngineChat,
		"ClientService/Shutdown":  tenant.EngineAdmin,
		"AgentService/RunSession": tenant.EngineAgent, "ShieldService/Evaluate": tenant.EngineShield,
		"ShieldService/Health":          tenant.EngineShield,
		"ShieldService/GetShieldStatus": tenant.EngineShield, "SubAgentService/RegisterSubAgent": tenant.EngineSubAgent,
		"SubAgentService/SubAgentExecuteTool": tenant.EngineSubAgent,
		"SubAgentService/SubAgentComplete":    tenant.EngineSubAgent,
		"SubAgentService/SubAgentFailed":      tenant.EngineSubAgent,
		"SubAgentService/SubAgentPollMessage": tenant.EngineSubAgent,
	}
	keys := map[string]tenant.Scopes{
		"chat": tenant.EngineChat, "agent": tenant.EngineAgent, "sub": tenant.EngineSubAgent,
		"stop":            tenant.EngineAdmin,
		"shield":          tenant.EngineShield,
		"all but engines": tenant.Invoke | tenant.Read | tenant.Approve | tenant.Policy | tenant.Admin,
	}
	ring := newKeyring()
	for name, scopes := range keys {
		ring.issue(name, "acme", scopes, nil)
	}
	e := startEngines(t, &guard.Settings{Queue: 100}, engine.Config{}, withKeys(t, ring))
	conn := e.gateway.Conn(t)
	for method, scope := range methods {
		for name, scopes := range keys {
			ctx := to(bearer(patient(t), ring.credentials[name]), "engine-1")
			err := conn.Invoke(ctx, "/openparallax.v1."+method, &parallaxpb.StatusRequest{},
				&parallaxpb.StatusResponse{})
			switch reason := errorInfo(err).GetReason(); {
			case !scopes.Any(scope):
				if status.Code(err) != codes.PermissionDenied || reason != "SCOPE_MISSING" {
					t.Errorf("%s with %s: %v; reason %+v", method, name, err, reason)
				}
			case method == "ClientService/Shutdown":
				if status.Code(err) != codes.PermissionDenied || reason != "ENGINE_SHUTDOWN_OFF" {
					t.Errorf("%s with %s: %v; reason %+v", method, name, err, reason)
				}
			case reason == "SCOPE_MISSING":
				t.Errorf("%s with %s: %v", method, name, err)
			}
		}
	}
	if err := conn.Invoke(to(patient(t), "engine-1"), "/openparallax.v1.ClientService/GetStatus",
		&parallaxpb.StatusRequest{}, &parallaxpb.StatusResponse{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a key: %v", err)
	}
	ctx := to(bearer(patient(t), ring.credentials["all but engines"]), "engine-1")
	for _, method := range []string{"/openparallax.v1.ClientService/Backdoor", "/grpc.testing.TestService/UnaryCall"} {
		if err := conn.Invoke(ctx, method, &parallaxpb.StatusRequest{},
			&parallaxpb.StatusResponse{}); status.Code(err) != codes.Unimplemented ||
			errorInfo(err).GetReason() != "METHOD_UNKNOWN" {
			t.Errorf("%s: %v", method, err)
		}
	}
	if _, err := docpb.NewCapabilityClient(conn).Invoke(ctx,
		&docpb.InvokeRequest{ToolName: "x"}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a tool of an engine: %v", err)
	}
}

// TestShutdownWhereItIsConfigured: a permitted Shutdown reaches the engine.
func TestShutdownWhereItIsConfigured(t *testing.T) {
	t.Parallel()
	e := startEngines(t, &guard.Settings{Queue: 100, Shutdown: true}, engine.Config{})
	if reply, err := e.client.Shutdown(patient(t), &parallaxpb.ShutdownRequest{}); err != nil || !reply.GetClean() {
		t.Errorf("got %v, %v", reply, err)
	}
}

// TestFleetOfEngines: a fleet of engines keeps sessions where they are, and rejects calls without a session.
func TestFleetOfEngines(t *testing.T) {
	t.Parallel()
	second := serveEngine(t, engine.Config{})
	e := startEngines(t, &guard.Settings{Queue: 100}, engine.Config{}, func(o *gatewaytest.Options) {
		o.Fleets[0].Backends = append(o.Fleets[0].Backends, second)
		o.Fleets[0].Affinity.Sessions = true
	})
	attendDirectly(t, e.addr)
	attendDirectly(t, second)
	for i := range 20 {
		session := fmt.Sprint("s", i%10)
		if got, err := e.say(patient(t), session, "hello"); err != nil || got != "You said: hello" {
			t.Fatalf("got %q, %v", got, err)
		}
		if h, err := e.client.GetHistory(patient(t), &parallaxpb.GetHistoryRequest{SessionId: session}); err != nil ||
			len(h.GetMessages()) != 2*(i/10+1) {
			t.Fatalf("got %v, %v", h, err)
		}
	}
	held := 0
	for _, addr := range []string{e.addr, second} {
		list, err := parallaxpb.NewClientServiceClient(direct(t, addr)).ListSessions(patient(t),
			&parallaxpb.ListSessionsRequest{})
		if err != nil || len(list.GetSessions()) == 0 {
			t.Errorf("got %v, %v", list, err)
		}
		held += len(list.GetSessions())
	}
	if held != 10 {
		t.Errorf("%d sessions", held)
	}
	if _, err := e.client.ListSessions(patient(t),
		&parallaxpb.ListSessionsRequest{}); status.Code(err) != codes.FailedPrecondition ||
		errorInfo(err).GetReason() != "ENGINE_AMBIGUOUS" {
		t.Error(err)
	}
	if _, err := e.client.ListSessions(with(patient(t), "x-session-id", "s3", "x-capability-id", "engine-1"),
		&parallaxpb.ListSessionsRequest{}); status.Code(err) == codes.FailedPrecondition {
		t.Error(err)
	}
	if _, err := e.client.GetStatus(patient(t), &parallaxpb.StatusRequest{}); err != nil {
		t.Error(err)
	}
}

// TestMessagesBesideABusyHistory: the gateway does not ask the engine about a session that it has just created.
func TestMessagesBesideABusyHistory(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	ring.issue("a", "acme", tenant.EngineChat, nil)
	e := startEngines(t, &guard.Settings{Queue: 100}, engine.Config{BusyHistory: true}, withKeys(t, ring))
	attendDirectly(t, e.addr)
	ctx := bearer(patient(t), ring.credentials["a"])
	if got, err := e.say(ctx, "", "hello"); err != nil || got != "You said: hello" {
		t.Errorf("without a session: %q, %v", got, err)
	}
	if _, err := e.say(ctx, "chosen", "hello"); status.Code(err) != codes.Unavailable {
		t.Errorf("with a session that the client chose: %v", err)
	}
}

// TestMessagesWithoutASession: an engine has one session for all messages that name none. The gateway gives
// each of them a session of its own, which only its caller learns and can read.
func TestMessagesWithoutASession(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	ring.issue("a", "acme", tenant.EngineChat, nil)
	ring.issue("g", "globex", tenant.EngineChat, nil)
	e := startEngines(t, &guard.Settings{Queue: 100}, engine.Config{ApprovalIDs: true}, withKeys(t, ring))
	attendDirectly(t, e.addr)
	keys := map[string]string{} // keys, by the sessions of their messages
	for _, by := range []string{"a", "a", "g"} {
		ctx := bearer(patient(t), ring.credentials[by])
		stream, err := e.client.SendMessage(ctx, &parallaxpb.ClientMessageRequest{Content: "hello"})
		check.Must(t, err)
		header, err := stream.Header()
		check.Must(t, err)
		session := strings.Join(header.Get("x-session-id"), "|")
		for {
			event, err := stream.Recv()
			if err != nil {
				break
			}
			if event.GetSessionId() != session {
				t.Errorf("%s: an event of session %q, want %q", by, event.GetSessionId(), session)
			}
		}
		if keys[session] != "" || len(session) < 20 {
			t.Errorf("%s: session %q", by, session)
		}
		keys[session] = by
		if h, err := e.client.GetHistory(ctx, &parallaxpb.GetHistoryRequest{SessionId: session}); err != nil ||
			len(h.GetMessages()) != 2 {
			t.Errorf("%s: %v, %v", by, h, err)
		}
	}
	ctx := bearer(patient(t), ring.credentials["g"])
	listed := sessionsOf(ctx, t, e.client, &parallaxpb.ListSessionsRequest{})
	for session, by := range keys {
		_, err := e.client.GetHistory(ctx, &parallaxpb.GetHistoryRequest{SessionId: session})
		if own := by == "g"; own != (err == nil) || own != strings.Contains(listed, session) {
			t.Errorf("globex reads the session of %q: %v; its list %q", by, err, listed)
		}
	}
	if _, err := e.client.GetHistory(bearer(patient(t), ring.credentials["a"]),
		&parallaxpb.GetHistoryRequest{}); status.Code(err) != codes.NotFound {
		t.Errorf("the history of no session: %v", err)
	}
	past := parallaxpb.NewClientServiceClient(direct(t, e.addr)) // the engine's own sessions
	if h, err := past.GetHistory(t.Context(), &parallaxpb.GetHistoryRequest{}); err != nil || len(h.GetMessages()) > 0 {
		t.Errorf("the engine got messages without a session: %v, %v", h, err)
	}
}
