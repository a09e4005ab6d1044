package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
	"github.com/capgate/capgate/internal/testkit/check"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// never is the time for which a test waits for an event that must not happen. It is time in a bubble, which passes when
// all goroutines are blocked.
const never = check.Patience / 2

// held is an agent that processes messages only when released.
type held struct {
	received chan string
	let      chan struct{}
}

func newHeld() *held { return &held{received: make(chan string, 10), let: make(chan struct{})} }

func (h *held) config() agent.Config {
	return agent.Config{
		Received: func(m *openparallaxv1.ProcessRequest) { h.received <- m.GetContent() },
		Think: func(ctx context.Context, _ *openparallaxv1.ProcessRequest) {
			select {
			case <-h.let:
			case <-ctx.Done():
			}
		},
	}
}

// send sends a message and returns when the agent has received it.
func (h *held) send(ctx context.Context, t *testing.T, c openparallaxv1.ClientServiceClient, session, content string,
	mode openparallaxv1.SessionMode) openparallaxv1.ClientService_SendMessageClient {
	t.Helper()
	stream, err := c.SendMessage(ctx, &openparallaxv1.ClientMessageRequest{SessionId: session, Content: content,
		Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	if got := check.Received(t, h.received, "the message"); got != content {
		t.Fatalf("the agent got %q", got)
	}
	return stream
}

// A message that arrives while another waits for a tool blocks both.
func TestOverlapStopsTheAgent(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		e, h := startQuiet(t, engine.Config{}), newHeld()
		e.attend(t, h.config())
		c := e.client(t)
		ctx, cancel := context.WithCancel(within(t))
		first := h.send(ctx, t, c, "one", `tool: read_file {"path":"a"}`, normal)
		second := h.send(ctx, t, c, "two", "hello", normal)
		close(h.let)
		for {
			event, err := first.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if event.GetEventType() == openparallaxv1.PipelineEventType_ACTION_COMPLETED {
				break // the agent is stopped, but does not read it
			}
		}
		time.AfterFunc(never, cancel)
		for _, stream := range []openparallaxv1.ClientService_SendMessageClient{first, second} {
			if heard, err := hear(stream); status.Code(err) != codes.Canceled || len(heard) > 0 {
				t.Errorf("%v, %v", heard, err)
			}
		}
	})
}

// TestOverlapEndsAnothersStream: the end of one answer ends the stream of another answer in the same session.
func TestOverlapEndsAnothersStream(t *testing.T) {
	t.Parallel()
	e, h := start(t, engine.Config{}), newHeld()
	e.attend(t, h.config())
	c := e.client(t)
	first := h.send(within(t), t, c, "s", "one", normal)
	second := h.send(within(t), t, c, "s", "two", normal)
	h.let <- struct{}{}
	for _, stream := range []openparallaxv1.ClientService_SendMessageClient{first, second} {
		if heard, err := hear(stream); err != nil || heard.answer() != "You said: one" {
			t.Errorf("%q, %v", heard.answer(), err)
		}
	}
	close(h.let)
}

// TestOverlapMixesModes: the mode of the most recent message decides whether an answer is recorded.
func TestOverlapMixesModes(t *testing.T) {
	t.Parallel()
	for _, modes := range [][2]openparallaxv1.SessionMode{{otr, normal}, {normal, otr}} {
		e, h := start(t, engine.Config{}), newHeld()
		e.attend(t, h.config())
		c := e.client(t)
		first := h.send(within(t), t, c, "one", "first", modes[0])
		second := h.send(within(t), t, c, "two", "second", modes[1])
		close(h.let)
		for _, stream := range []openparallaxv1.ClientService_SendMessageClient{first, second} {
			if _, err := hear(stream); err != nil {
				t.Fatal(err)
			}
		}
		one := recorded(t, c, "one")
		want := map[openparallaxv1.SessionMode][]string{otr: {"assistant: You said: first"},
			normal: {"user: first"}}[modes[0]]
		if !slices.Equal(one, want) {
			t.Errorf("%v: recorded %q, want %q", modes, one, want)
		}
	}
}

// A client that does not read blocks everything.
func TestASlowReaderStallsEverybody(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{})
	e.attend(t, agent.Config{})
	// The window does not grow.
	slow := openparallaxv1.NewClientServiceClient(e.conn(t, grpc.WithInitialWindowSize(1<<16)))
	stream, err := slow.SendMessage(within(t), &openparallaxv1.ClientMessageRequest{SessionId: "slow",
		Content: "flood: 512", Mode: normal})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil { // no further reads
		t.Fatal(err)
	}
	// However slow the machine is, nothing is received. The time of a bubble would not pass while calls wait for a
	// lock.
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if heard, err := say(ctx, e.client(t), "quick", "hello", normal); status.Code(err) != codes.DeadlineExceeded ||
		len(heard) > 0 {
		t.Errorf("%v, %v", heard, err)
	}
	if heard, err := hear(stream); err != nil || heard.answer() != "that was all" {
		t.Errorf("%q, %v", heard.answer(), err)
	}
	if heard, err := say(within(t), e.client(t), "quick", "hello", normal); err != nil || heard.answer() == "" {
		t.Errorf("%v, %v", heard, err)
	}
}

// The most recent agent receives the messages. Once the first one has left, no agent does.
func TestTheLastAgentWins(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{})
	first, second := make(chan string, 2), make(chan string, 2)
	leave, _ := e.attend(t, agent.Config{Received: func(m *openparallaxv1.ProcessRequest) { first <- m.GetContent() }})
	e.attend(t, agent.Config{Received: func(m *openparallaxv1.ProcessRequest) { second <- m.GetContent() }})
	c := e.client(t)
	if heard, err := say(within(t), c, "s", "hello", normal); err != nil || heard.answer() == "" || len(first) != 0 ||
		len(second) != 1 {
		t.Errorf("%v, %v; %d and %d messages", heard, err, len(first), len(second))
	}
	leave()
	check.Until(t, "no agent to be there", func() (bool, string) {
		heard, err := say(within(t), c, "s", "hello", normal)
		check.Must(t, err)
		return heard.failure() == "AGENT_UNAVAILABLE", fmt.Sprint(heard)
	})
}

// TestNothingIsGuarded: any client can shut down the engine and answer the approvals of other sessions.
func TestNothingIsGuarded(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{ApprovalIDs: true, Token: "secret"})
	e.attend(t, agent.Config{Token: "secret"})
	stream, err := e.client(t).SendMessage(within(t), &openparallaxv1.ClientMessageRequest{SessionId: "mine",
		Content: "approve: ls", Mode: normal})
	if err != nil {
		t.Fatal(err)
	}
	stranger := e.client(t)
	response := &openparallaxv1.ApprovalResponse{ApprovalId: awaitApproval(t, stream).GetApprovalId(),
		SessionId: "another", Approved: true}
	if _, err := stranger.ResolveApproval(within(t), response); err != nil {
		t.Error(err)
	}
	if heard, err := hear(stream); err != nil || heard.answer() != "ran ls" {
		t.Errorf("%v, %v", heard, err)
	}
	if got := recorded(t, stranger, "mine"); len(got) != 2 {
		t.Errorf("a stranger reads %q", got)
	}
	if _, err := stranger.Shutdown(within(t), &openparallaxv1.ShutdownRequest{}); err != nil {
		t.Error(err)
	}
	if err := check.Received(t, e.ended, "the engine to stop"); err != nil {
		t.Error(err)
	}
}

// TestNumbersOfModesAreMistaken: an engine that numbers modes as in its source misreads clients that number them as
// documented.
func TestNumbersOfModesAreMistaken(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{})
	e.attend(t, agent.Config{})
	c := e.client(t)
	if _, err := say(within(t), c, "s", "psst", 1 /* OTR, as documented */); err != nil {
		t.Fatal(err)
	}
	if got := recorded(t, c, "s"); len(got) != 2 {
		t.Errorf("recorded %q", got)
	}
}

// Streams of older engines end with their clients.
func TestKeptStreams(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		e := startQuiet(t, engine.Config{KeepStreams: true})
		e.attend(t, agent.Config{})
		c := e.client(t)
		ctx, cancel := context.WithCancel(within(t))
		stream, err := c.SendMessage(ctx,
			&openparallaxv1.ClientMessageRequest{SessionId: "s", Content: "hello", Mode: normal})
		if err != nil {
			t.Fatal(err)
		}
		for {
			event, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if event.GetResponseComplete() != nil {
				break
			}
		}
		time.AfterFunc(never, cancel)
		if event, err := stream.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("%v, %v", event, err)
		}
	})
}
