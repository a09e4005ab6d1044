package gateway_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// engineJSON calls engines over JSON with one version of HTTP.
type engineJSON struct {
	t       *testing.T
	gateway *gatewaytest.Gateway
	client  *http.Client
}

func (e *engineJSON) begin(method, path, body string) *http.Response {
	e.t.Helper()
	req, err := http.NewRequestWithContext(patient(e.t), method, e.gateway.URL("/v1/engines"+path),
		strings.NewReader(body))
	check.Must(e.t, err)
	req.Header.Set("Accept", "application/json, application/x-ndjson")
	resp, err := e.client.Do(req)
	check.Must(e.t, err)
	check.Cleanup(e.t, func() { _ = resp.Body.Close() })
	return resp
}

func (e *engineJSON) ask(method, path, body string) (status int, text string) {
	e.t.Helper()
	resp := e.begin(method, path, body)
	all, err := io.ReadAll(resp.Body)
	check.Must(e.t, err)
	return resp.StatusCode, string(all)
}

// wants fails unless the response has the given status and contains text.
func (e *engineJSON) wants(method, path, body string, status int, in string) {
	e.t.Helper()
	if got, text := e.ask(method, path, body); got != status || !strings.Contains(text, in) {
		e.t.Errorf("HTTP/%v: %s %s %s: %d %s; want %d %s", e.version(), method, path, body, got, text, status, in)
	}
}

func (e *engineJSON) version() int { return e.begin("GET", "/engine-1/status", "").ProtoMajor }

// engineRecord is one record of a stream of lines.
type engineRecord struct {
	Event, ID string
	Approval  struct {
		ID string `json:"approval_id"`
	} `json:"approval_needed"`
	Response struct{ Content string } `json:"response_complete"`
	Problem  struct {
		Reason, Detail string
		Metadata       map[string]string
	}
}

// say sends a message and yields the records one by one.
func (e *engineJSON) say(body string) (next func() engineRecord) {
	e.t.Helper()
	resp := e.begin("POST", "/engine-1/messages", body)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		e.t.Fatal(resp.Status, resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	return func() (r engineRecord) {
		e.t.Helper()
		for {
			if !lines.Scan() {
				e.t.Fatal("the stream has no last record: ", lines.Err())
			}
			check.Must(e.t, json.Unmarshal(lines.Bytes(), &r))
			if r.Event != "heartbeat" {
				return r
			}
		}
	}
}

// until returns the record of an event, and the names of all events up to it.
func until(next func() engineRecord, events ...string) (r engineRecord, names string) {
	for !slices.Contains(events, r.Event) {
		r = next()
		names += " " + r.Event
	}
	return r, names
}

// TestEnginesByJSON: the JSON API covers an engine, from a message to its history, over both versions of HTTP.
func TestEnginesByJSON(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprint("HTTP ", version), func(t *testing.T) {
			t.Parallel()
			bySeed := guard.Modes{Clients: guard.BySeed, Engines: guard.BySeed}
			e := startEngines(t, &guard.Settings{Queue: 100, Modes: bySeed},
				engine.Config{SeedModes: true})
			e.attend(t, agent.Config{})
			by := &engineJSON{t: t, gateway: e.gateway, client: e.gateway.HTTP1(t)}
			if version == 2 {
				by.client = e.gateway.HTTP2(t)
			}
			if v := by.version(); v != version {
				t.Fatal("HTTP/", v)
			}
			by.wants("GET", "/engine-1/status", "", 200,
				`{"agent_name":"Atlas","model":"scripted","shield_connected":true,"shield_max_tier":3,`)

			next := by.say(`{"content":"hello there","session_id":"one","source":"web"}`)
			if r, names := until(next, "response_complete"); r.Response.Content != "You said: hello there" ||
				!strings.HasPrefix(names, " llm_token llm_token") {
				t.Errorf("%s: %+v", names, r)
			}
			if last := next(); last.Event != "done" {
				t.Errorf("got %+v", last)
			}
			last, names := until(by.say(`{"content":"fail","session_id":"two"}`), "done", "failed")
			if last.Event != "failed" || last.Problem.Reason != "ENGINE_ERROR" ||
				last.Problem.Metadata["code"] != "LLM_CALL_FAILED" || !strings.HasSuffix(names, " error failed") {
				t.Errorf("%s: %+v", names, last)
			}
			// In the seed, the number 1 is OTR; names are read as they are.
			if last, names := until(by.say(`{"content":"hello","session_id":"secret","mode":"OTR"}`), "done",
				"failed"); last.Event != "done" {
				t.Errorf("%s: %+v", names, last)
			}
			by.wants("GET", "/engine-1/sessions?page_size=1", "", 200, `{"sessions":[{"id":"two",`)
			by.wants("GET", "/engine-1/sessions?page_size=1", "", 200, `"mode":"NORMAL","create_time":"20`)
			by.wants("GET", "/engine-1/sessions?page_size=1&page_token=MSB0d28", "", 200, `{"sessions":[{"id":"one",`)
			by.wants("GET", "/engine-1/sessions?page_size=1&page_token=MSB0d28", "", 200, `"next_page_token":""`)
			by.wants("GET", "/engine-1/sessions/one/history?page_size=1", "", 200,
				`"role":"user","content":"hello there"`)
			by.wants("GET", "/engine-1/sessions/one/history", "", 200,
				`"role":"assistant","content":"You said: hello there"`)
			by.wants("GET", "/engine-1/sessions/secret/history", "", 200, `{"messages":[]`)
		})
	}
}

// TestEnginesQuestionsByJSON: a question is answered once, and only by a caller that knows it.
func TestEnginesQuestionsByJSON(t *testing.T) {
	t.Parallel()
	e := startEngines(t, &guard.Settings{Queue: 100}, engine.Config{ApprovalIDs: true})
	e.attend(t, agent.Config{})
	by := &engineJSON{t: t, gateway: e.gateway, client: e.gateway.HTTP1(t)}
	for verb, want := range map[string]string{"approve": `"action_type":"EXECUTE_COMMAND","success":true`, "deny": ""} {
		next := by.say(`{"content":"approve: ls","session_id":"s"}`)
		asked, _ := until(next, "approval_needed")
		path := "/engine-1/approvals/" + asked.Approval.ID + "/"
		by.wants("POST", path+verb, `{"session_id":"s"}`, 200, `{"received":true}`)
		by.wants("POST", path+"approve", "", 400, `"code":"FAILED_PRECONDITION"`)
		if last, names := until(next, "done", "failed"); last.Event != "done" || want != "" &&
			!strings.Contains(names, "action_completed") {
			t.Errorf("%s: %s: got %+v", verb, names, last)
		}
	}
	by.wants("POST", "/engine-1/approvals/unknown/approve", "", 404, `"reason":"ENGINE_APPROVAL_UNKNOWN"`)
}

// TestOtherCapabilitiesAreNoEngines: a capability that is not an engine does not exist in the engines' API.
func TestOtherCapabilitiesAreNoEngines(t *testing.T) {
	t.Parallel()
	shared, _ := shareEngines(t, nil)
	capability := gatewaytest.NewCapability("b1")
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{
			{Capability: "engine-1", Backends: []string{serveEngine(t, engine.Config{})},
				Protocol: &guard.Settings{Buffer: 1 << 20}, Unprobed: true},
			{Capability: "caps", Backends: []string{capability.Serve(t, call.Doc).Addr}},
		},
		Engines: shared,
	})
	by := &engineJSON{t: t, gateway: g, client: g.HTTP1(t)}
	for id, reason := range map[string]string{"caps": "ENGINE_UNKNOWN", "absent": "CAPABILITY_UNKNOWN"} {
		for _, route := range []struct{ method, path, body string }{
			{"POST", "/messages", `{"content":"c"}`}, {"GET", "/status", ""}, {"GET", "/sessions", ""},
			{"GET", "/sessions/s/history", ""},
			{"POST", "/approvals/a/approve", ""}, {"POST", "/approvals/a/deny", ""},
		} {
			by.wants(route.method, "/"+id+route.path, route.body, 404, `"code":"NOT_FOUND","reason":"`+reason+`"`)
		}
	}
}

// breaking is an engine whose connection breaks in the middle of an answer.
type breaking struct {
	openparallaxv1.UnimplementedClientServiceServer
}

func (b *breaking) SendMessage(_ *openparallaxv1.ClientMessageRequest,
	stream grpc.ServerStreamingServer[openparallaxv1.PipelineEvent]) error {
	err := stream.Send(&openparallaxv1.PipelineEvent{SessionId: "s",
		EventType: openparallaxv1.PipelineEventType_LLM_TOKEN, LlmToken: &openparallaxv1.LLMToken{Text: "I"}})
	<-stream.Context().Done()
	return err
}

// TestAnEngineThatBreaksByJSON: the last record says how to find out what became of the message.
func TestAnEngineThatBreaksByJSON(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.Serve(t, func(g *grpc.Server) { openparallaxv1.RegisterClientServiceServer(g, &breaking{}) })
	shared, _ := shareEngines(t, nil)
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "engine-1", Backends: []string{backend.Addr},
			Protocol: &guard.Settings{Buffer: 1 << 20}, Unprobed: true}},
		Engines: shared,
	})
	by := &engineJSON{t: t, gateway: g, client: g.HTTP1(t)}
	next := by.say(`{"content":"hello","session_id":"s"}`)
	if first := next(); first.Event != "llm_token" {
		t.Fatalf("got %+v", first)
	}
	backend.Stop()
	last := next()
	if last.Event != "failed" || last.Problem.Reason != "ENGINE_STREAM_LOST" ||
		last.Problem.Metadata["recover"] != "openparallax.v1.ClientService/GetHistory" ||
		last.Problem.Metadata["session"] != "s" {
		t.Errorf("got %+v", last)
	}
}
