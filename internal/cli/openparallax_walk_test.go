package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/capgate/capgate/examples/openparallax"
	"github.com/capgate/capgate/examples/openparallax/engine"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// walk follows docs/systems/openparallax.md like a newcomer with only the published system.
type walk struct {
	t       *testing.T
	port    int
	gateway string // its address, of the two of localhost
	hosts   openparallax.Hosts
	config  string // file
	dir     string // of the engine's sessions
	client  openparallaxv1.ClientServiceClient

	up chan struct{} // closed while a gateway serves

	mu     sync.Mutex
	failed []string // errors of agents
}

// newWalk finds a port that is free at both addresses, and writes the configuration in the document that
// contains part.
func newWalk(t *testing.T, part string) *walk {
	t.Helper()
	w := &walk{t: t, gateway: "::1", dir: t.TempDir(), up: make(chan struct{})}
	w.port = int(netip.MustParseAddrPort(check.ClosedPort(t)).Port())
	ln, err := net.Listen("tcp", net.JoinHostPort(w.gateway, fmt.Sprint(w.port)))
	if err != nil { // this machine has no IPv6: an address that is written as one replaces it
		w.gateway = "127.0.0.2"
		ln, err = net.Listen("tcp", net.JoinHostPort(w.gateway, fmt.Sprint(w.port)))
		check.Must(t, err)
	}
	_ = ln.Close()
	first := netip.MustParseAddr(w.gateway)
	w.hosts = openparallax.Hosts{netip.AddrFrom16(first.As16()), netip.MustParseAddr("127.0.0.1")}
	var text string
	for _, b := range blocks(t, "docs/systems/openparallax.md") {
		if b.info == "yaml test" && strings.Contains(b.text, part) {
			text = b.text
		}
	}
	if text == "" {
		t.Fatalf("the document has no configuration with %s", part)
	}
	text = strings.NewReplacer("[::1]:7001", net.JoinHostPort(w.gateway, fmt.Sprint(w.port)), "7001",
		fmt.Sprint(w.port), "127.0.0.1:8081", "127.0.0.1:0", "0.0.0.0:8080", "127.0.0.1:0", "timeout: 10s",
		"timeout: 1s", `"]}`, `"], health: {wait_for_ready: 30s}}`, "engine: {", // for a busy machine
		"health: {wait_for_ready: 30s}\n    engine: {").Replace(text)
	w.config = filepath.Join(t.TempDir(), "capgate.yaml")
	check.Must(t, os.WriteFile(w.config, []byte(text), 0o600))
	target, opts := w.hosts.Target(fmt.Sprintf("localhost:%d", w.port))
	conn, err := clienttest.NewConn(target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	w.client = openparallaxv1.NewClientServiceClient(conn)
	return w
}

// startEngine starts the engine with its agent, at the document's port.
func (w *walk) startEngine() (served *engine.Engine, stop func()) {
	w.t.Helper()
	p, err := openparallax.Listen(openparallax.Config{Port: w.port, Hosts: w.hosts, Engine: engine.Config{Dir: w.dir},
		Pause: w.pause, Failed: w.fail})
	check.Must(w.t, err)
	if p.Addr().Port != w.port || p.Addr().IP.String() != "127.0.0.1" {
		w.t.Fatalf("the engine is at %v, and not at 127.0.0.1:%d", p.Addr(), w.port)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, "") }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := check.Received(w.t, ended, "the end of the engine"); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(stop)
	return p.Engine, stop
}

// fail records an error of an agent.
func (w *walk) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = append(w.failed, err.Error())
}

// failures returns the errors of agents so far.
func (w *walk) failures() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.failed)
}

// pause delays agents until a gateway serves. Otherwise they would dial the other address, as the document
// says.
func (w *walk) pause(ctx context.Context) {
	w.mu.Lock()
	up := w.up
	w.mu.Unlock()
	select {
	case <-up:
	case <-ctx.Done():
	}
}

// startGateway starts the gateway.
func (w *walk) startGateway() (p *program, admin string) {
	w.t.Helper()
	p, _, admin = serve(w.t, nil, "--config", w.config)
	close(w.up)
	return p, admin
}

// stopGateway stops the gateway.
func (w *walk) stopGateway(p *program) {
	w.t.Helper()
	w.mu.Lock()
	w.up = make(chan struct{})
	w.mu.Unlock()
	p.signal(w.t, syscall.SIGTERM)
	if exit := p.wait(w.t); exit != 0 {
		w.t.Errorf("exit status %d", exit)
	}
}

// awaitAgent waits until the gateway reports the engine's agent, as the document shows.
func (w *walk) awaitAgent(admin string) {
	w.t.Helper()
	const connected = `capgate_engine_agents{capability="engine-1"} 1` + "\n"
	if !strings.Contains(read(w.t, "docs/systems/openparallax.md"), connected) {
		w.t.Error("the document does not show the metric of a connected agent")
	}
	w.awaitMetric(admin, connected)
}

// awaitNoAgent waits until the gateway reports that the agent of an ended engine is gone.
func (w *walk) awaitNoAgent(admin string) {
	w.t.Helper()
	w.awaitMetric(admin, `capgate_engine_agents{capability="engine-1"} 0`+"\n")
}

func (w *walk) awaitMetric(admin, line string) {
	w.t.Helper()
	check.Until(w.t, line, func() (bool, string) {
		_, text := page(w.t, "http://"+admin+"/metrics")
		return strings.Contains(text, line), fmt.Sprintf("the agent's failures: %q", w.failures())
	})
}

// say sends a message as the terminal UI does, and returns the answer. asked is called for an event without
// type.
func (w *walk) say(session, content string, asked func()) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), check.Patience)
	defer cancel()
	stream, err := w.client.SendMessage(ctx, &openparallaxv1.ClientMessageRequest{SessionId: session, Content: content,
		Mode: openparallaxv1.SessionMode_NORMAL, Source: "tui"})
	check.Must(w.t, err)
	for answer := ""; ; {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return answer
		}
		check.Must(w.t, err)
		if event.GetEventType() == openparallaxv1.PipelineEventType_PIPELINE_EVENT_UNSPECIFIED {
			asked()
		}
		if complete := event.GetResponseComplete(); complete != nil {
			answer = complete.GetContent()
		}
	}
}

// TestOpenParallaxWalk: the gateway is set up as documented and started before the engine. Agent and terminal
// UI, which dial localhost, connect through it, also after restarts of the engine and the gateway.
func TestOpenParallaxWalk(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]string{"one user": `listen: "[::1]:7001"`, "a listener": "listeners:"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newWalk(t, part).do(t)
		})
	}
}

// do follows the document.
func (w *walk) do(t *testing.T) {
	t.Helper()
	if exit, _, stderr := runProgram(t, nil, "check", "--config", w.config); exit != 0 {
		t.Fatalf("check: %s", stderr)
	}
	gateway, admin := w.startGateway()
	_, stop := w.startEngine()
	w.awaitAgent(admin)
	if got := w.say("mine", "hello", nil); got != "You said: hello" {
		t.Errorf("got %q", got)
	}

	stop() // and its agent with it
	w.awaitNoAgent(admin)
	served, _ := w.startEngine()
	w.awaitAgent(admin)
	w.answerElsewhere(served, admin)
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	h, err := w.client.GetHistory(ctx, &openparallaxv1.GetHistoryRequest{SessionId: "mine"})
	if err != nil || len(h.GetMessages()) != 4 || h.GetMessages()[0].GetContent() != "hello" {
		t.Errorf("the session did not go on: %v, %v", h, err)
	}
	if failed := w.failures(); len(failed) > 0 {
		t.Errorf("agents were refused: %q", failed)
	}

	w.stopGateway(gateway)
	_, admin = w.startGateway()
	w.awaitAgent(admin)
	if got := w.say("another", "still there?", nil); got != "You said: still there?" {
		t.Errorf("got %q", got)
	}
	if failed := w.failures(); len(failed) != 1 || !strings.Contains(failed[0], "Unavailable") {
		t.Errorf("the agent failed by more than the end of the gateway: %q", failed)
	}
}

// answerElsewhere answers in the engine's own web page, after the inbox showed where.
func (w *walk) answerElsewhere(served *engine.Engine, admin string) {
	w.t.Helper()
	inbox := func(args ...string) (exit int, text string) {
		exit, stdout, stderr := runProgram(w.t, nil, append([]string{"approvals", "--admin", admin}, args...)...)
		return exit, stdout + stderr
	}
	got := w.say("mine", "approve: ls", func() {
		shown := served.Questions()
		exit, text := inbox("list")
		if exit != 0 || len(shown) != 1 || !strings.Contains(text, "execute_command") {
			w.t.Errorf("exit status %d, the web page shows %v, and the inbox\n%s", exit, shown, text)
			return
		}
		id := regexp.MustCompile(`apr_\w+`).FindString(text)
		exit, text = inbox("show", id)
		for _, want := range []string{"elsewhere", "engine-1", "mine", "own web page"} {
			if exit != 0 || !strings.Contains(text, want) {
				w.t.Errorf("exit status %d, without %q: %s", exit, want, text)
			}
		}
		if exit, text := inbox("approve", id); exit == 0 || !strings.Contains(text, "own web page") {
			w.t.Errorf("exit status %d, %s", exit, text)
		}
		if _, err := w.client.ResolveApproval(w.t.Context(), &openparallaxv1.ApprovalResponse{ApprovalId: shown[0].ID,
			SessionId: "mine", Approved: true}); err != nil {
			w.t.Error(err)
		}
	})
	if got != "ran ls" {
		w.t.Errorf("got %q", got)
	}
	if _, text := inbox("list"); strings.Contains(text, "apr_") {
		w.t.Errorf("the inbox still shows\n%s", text)
	}
}
