package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/internal/testkit/check"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
)

// Each of these hazards affects clients that reach an engine without a gateway:
// examples/openparallax/engine/hazards_test.go.

// gatedAgent is an agent that works on one message per token of let, and records the messages.
type gatedAgent struct {
	let chan struct{}

	mu  sync.Mutex
	had []string
	got chan string
}

func (a *gatedAgent) config() agent.Config {
	return agent.Config{
		Received: func(m *parallaxpb.ProcessRequest) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.had = append(a.had, m.GetContent())
			a.got <- m.GetContent()
		},
		Think: func(ctx context.Context, _ *parallaxpb.ProcessRequest) {
			select {
			case <-a.let:
			case <-ctx.Done():
			}
		},
	}
}

// TestMessagesDoNotOverlap: messages of one session or of two do not overlap, whatever their modes, and whether
// engines end their streams or wait for their clients to do so.
func TestMessagesDoNotOverlap(t *testing.T) {
	t.Parallel()
	const normal, otr = parallaxpb.SessionMode_NORMAL, parallaxpb.SessionMode_OTR
	for name, test := range map[string]struct {
		cfg      engine.Config
		sessions [2]string
		modes    [2]parallaxpb.SessionMode
	}{
		"two sessions":   {engine.Config{}, [2]string{"a", "b"}, [2]parallaxpb.SessionMode{normal, normal}},
		"one session":    {engine.Config{}, [2]string{"a", "a"}, [2]parallaxpb.SessionMode{normal, normal}},
		"the second OTR": {engine.Config{}, [2]string{"a", "b"}, [2]parallaxpb.SessionMode{normal, otr}},
		"the first OTR":  {engine.Config{}, [2]string{"a", "b"}, [2]parallaxpb.SessionMode{otr, normal}},
		"streams that are kept": {engine.Config{KeepStreams: true}, [2]string{"a", "a"},
			[2]parallaxpb.SessionMode{normal, normal}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startEngines(t, &guard.Settings{Queue: 100}, test.cfg)
			a := &gatedAgent{let: make(chan struct{}), got: make(chan string, 2)}
			e.attend(t, a.config())
			send := func(i int) parallaxpb.ClientService_SendMessageClient {
				stream, err := e.client.SendMessage(patient(t), &parallaxpb.ClientMessageRequest{
					SessionId: test.sessions[i], Content: fmt.Sprintf(`tool: read_file {"path":"%d"}`, i),
					Mode: test.modes[i],
				})
				check.Must(t, err)
				return stream
			}
			first := send(0)
			check.Received(t, a.got, "the result")
			second := send(1)
			a.let <- struct{}{} // the second message, if it is there, continues at once
			for i, stream := range []parallaxpb.ClientService_SendMessageClient{first, second} {
				if i == 1 {
					a.let <- struct{}{}
				}
				events, err := receiveAll(stream)
				if err != nil || len(events) == 0 {
					t.Fatalf("%d: %v, %v", i, events, err)
				}
				if got, want := events[len(events)-1].GetResponseComplete().GetContent(),
					fmt.Sprintf("what %d says", i); got != want {
					t.Errorf("%d: %q, want %q", i, got, want)
				}
			}
			for i, session := range test.sessions {
				history, err := e.client.GetHistory(patient(t), &parallaxpb.GetHistoryRequest{SessionId: session})
				check.Must(t, err)
				want := map[bool]int{true: 4, false: 2}[test.sessions[0] == test.sessions[1]]
				if test.modes[i] == otr {
					want = 0
				}
				if len(history.GetMessages()) != want {
					t.Errorf("%s: recorded %v, want %d messages", session, history.GetMessages(), want)
				}
			}
		})
	}
}

// TestShutdownAndForeignAnswersAreRejected: unless it is configured, Shutdown is rejected, and an engine gets no answer
// to a question that it did not ask.
func TestShutdownAndForeignAnswersAreRejected(t *testing.T) {
	t.Parallel()
	e := startEngines(t, &guard.Settings{Queue: 100}, engine.Config{})
	e.attend(t, agent.Config{})
	_, err := e.client.Shutdown(patient(t), &parallaxpb.ShutdownRequest{})
	wants(t, err, codes.PermissionDenied, "ENGINE_SHUTDOWN_OFF")
	_, err = e.client.ResolveApproval(patient(t), &parallaxpb.ApprovalResponse{ApprovalId: "of another",
		Approved: true})
	wants(t, err, codes.NotFound, "ENGINE_APPROVAL_UNKNOWN")
	if got, err := e.say(patient(t), "s", "hello"); err != nil || got != "You said: hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestFailuresOfAnswers: answers that fail are errors, although the engine's status is OK.
func TestFailuresOfAnswers(t *testing.T) {
	t.Parallel()
	e := startEngines(t, &guard.Settings{Queue: 100}, engine.Config{})
	if _, err := e.say(patient(t), "s", "hello"); err != nil { // there is no agent
		t.Error(err)
	}
	e.attend(t, agent.Config{})
	for _, content := range []string{"fail", "hello"} {
		if _, err := e.say(patient(t), "s", content); err != nil {
			t.Error(err)
		}
	}
	var outcomes []string
	for _, line := range e.gateway.Log.Calls(t, 3) {
		if line.Text("path") == "/openparallax.v1.ClientService/SendMessage" {
			outcomes = append(outcomes, line.Text("code")+" "+line.Text("outcome"))
		}
	}
	if want := []string{"OK tool_error", "OK tool_error", "OK success"}; !slices.Equal(outcomes, want) {
		t.Errorf("got %q", outcomes)
	}
}
