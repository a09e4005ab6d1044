package cli

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/browsertest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// TestConsoleInABrowser: people use the console of running gateways, in one browser.
func TestConsoleInABrowser(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t, root)
	for name, test := range map[string]func(*testing.T, *browsertest.Browser){
		"Approve": consoleApproves, "Expire": consoleExpires, "Drain": consoleDrains, "Replica": consoleOutlives,
		"Rules": consoleRules, "Keys": consoleKeys, "Calls": consoleCalls, "Streams": consoleStreams,
		"People": consolePeople, "Roles": consoleRoles, "Pages": consolePages,
		"Whole": consoleShowsTheWholeCall, "Tasks": consoleTasks, "Scale": consoleScale, "Toolsets": consoleToolsets,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}

// seen holds the arguments of a scenario.
type seen map[string]any

// consoleGateway returns a gateway whose fleet caps requires approval for each call.
func consoleGateway(t *testing.T, more string) (public, admin string) {
	t.Helper()
	file := writeConfig(t, strings.Replace(configOf("policies: {}\n"+more,
		gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr), "policy: allow", "policy: ask", 1))
	_, public, admin = serve(t, nil, "--config", file)
	return "http://" + public, "http://" + admin
}

func consoleApproves(t *testing.T, b *browsertest.Browser) {
	public, admin := consoleGateway(t, patientRedis(""))
	var saw struct {
		Status, Denied                                 int
		Card, Result, Other, Conflict, Address, Reason string
		Home, Deny                                     string
	}
	b.Run(t, "approve", seen{"origins": []string{admin}, "public": public}, &saw)
	for _, part := range []string{"Echo", "caps", "bot", "ann", "a@example.com", "1.50", "hello", "Masked", "left"} {
		if !strings.Contains(saw.Card, part) {
			t.Errorf("the card says nothing of %s: %s", part, saw.Card)
		}
	}
	if strings.Contains(saw.Card, "hunter2") {
		t.Errorf("the card has the secret: %s", saw.Card)
	}
	if !strings.Contains(saw.Home, "one call is waiting for approval") || !strings.Contains(saw.Deny, "third") ||
		!strings.Contains(saw.Deny, "true") {
		t.Errorf("got %+v", saw)
	}
	if saw.Status != 200 || !strings.Contains(saw.Result, `"1.50"`) || !strings.Contains(saw.Other, "Approved") {
		t.Errorf("got %+v", saw)
	}
	if saw.Denied == 200 || !strings.Contains(saw.Conflict, "denied by Zoe") {
		t.Errorf("got %d %s", saw.Denied, saw.Conflict)
	}
	if !strings.HasPrefix(saw.Address, "#/inbox/apr_") || !strings.Contains(saw.Reason, "not today") {
		t.Errorf("got %s %s", saw.Address, saw.Reason)
	}
}

// consoleShowsTheWholeCall: the end of a long text is shown before the call can be approved, and typing answers
// nothing.
func consoleShowsTheWholeCall(t *testing.T, b *browsertest.Browser) {
	public, admin := consoleGateway(t, patientRedis(""))
	const last = "PS: the account is DE00 1234"
	body := strings.Repeat("words of a mail. ", 40) + last
	var saw struct {
		Screens []struct {
			Excerpt, Focused, Whole, AfterKeys, AfterTyping, Reason string
			InSight                                                 bool
			Status                                                  int
		}
	}
	b.Run(t, "whole", seen{"origins": []string{admin}, "public": public, "body": body,
		"long": strings.Repeat("word ", 2500) + "the very end"}, &saw)
	if len(saw.Screens) != 2 {
		t.Fatalf("got %+v", saw)
	}
	for _, s := range saw.Screens {
		if !strings.Contains(s.Excerpt, "excerpt") || !strings.Contains(s.Whole, last) ||
			!strings.Contains(s.Whole, "the very end") || s.Focused != "H2" || !s.InSight || s.Status != 200 ||
			s.AfterKeys != "pending" || s.AfterTyping != "pending" || !strings.Contains(s.Reason, "not now, thanks") {
			t.Errorf("%.300q, focus %s, in sight %v, %d, %s, %s, %s; the whole has %d bytes", s.Excerpt, s.Focused,
				s.InSight, s.Status, s.AfterKeys, s.AfterTyping, s.Reason, len(s.Whole))
		}
	}
}

// consoleRules: a rule, its explanation, the playground and the live calls.
func consoleRules(t *testing.T, b *browsertest.Browser) {
	public, admin := consoleGateway(t, patientRedis(""))
	var saw struct {
		Winner, Blocked, Curl string
		Answer                []string
		Live                  bool
	}
	b.Run(t, "rules", seen{"origins": []string{admin}, "public": public}, &saw)
	if !strings.Contains(saw.Winner, "rule of the tenant") || !strings.Contains(saw.Winner, "block") {
		t.Errorf("the deciding policy: %s", saw.Winner)
	}
	answer := strings.Join(strings.Fields(strings.Join(saw.Answer, "")), "")
	if !strings.Contains(saw.Blocked, "TOOL_BLOCKED") || !strings.Contains(answer, "hellofromtheplayground") ||
		!saw.Live {
		t.Errorf("%+v; answer %+v", saw, answer)
	}
	if !strings.Contains(saw.Curl, "/v1/capabilities/caps/tools/echo'") || strings.Contains(saw.Curl, "-N") ||
		strings.Contains(saw.Curl, "$CAPGATE_KEY") { // callers need no key
		t.Errorf("the call from a program: %s", saw.Curl)
	}
}

func consoleExpires(t *testing.T, b *browsertest.Browser) {
	public, admin := consoleGateway(t, patientRedis("")+"\napprovals: {ttl: 10m}")
	var saw struct {
		Text    string
		Buttons int
	}
	b.Run(t, "expire", seen{"origins": []string{admin}, "public": public}, &saw)
	if !strings.Contains(saw.Text, "There was no answer in time") || saw.Buttons != 0 {
		t.Errorf("got %+v", saw)
	}
}

func consoleDrains(t *testing.T, b *browsertest.Browser) {
	one := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	other := gatewaytest.NewCapability("other").Serve(t, call.Doc).Addr
	config := strings.Replace(configOf(patientRedis(""), one, other), "capability: caps", "capability: free", 1)
	file := writeConfig(t, config)
	_, public, admin := serve(t, nil, "--config", file)
	var saw struct {
		Calls  int
		Failed []string
		Last   string
	}
	b.Run(t, "drain", seen{"origins": []string{"http://" + admin}, "public": "http://" + public,
		"backend": one, "other": other}, &saw)
	if saw.Calls == 0 || len(saw.Failed) > 0 || saw.Last == "" {
		t.Errorf("got %+v", saw)
	}
}

// consoleOutlives: two replicas share a Redis. The page reaches one of them through a port that leads to the
// other after the first has died.
func consoleOutlives(t *testing.T, b *browsertest.Browser) {
	redis := redistest.Start(t)
	config := strings.Replace(configOf("policies: {}\n"+patientRedis(redis.URL()),
		gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr), "policy: allow", "policy: ask", 1)
	first, _, firstAdmin := serve(t, nil, "--config", writeConfig(t, config))
	_, public, secondAdmin := serve(t, nil, "--config", writeConfig(t, config))
	port := startPort(t, firstAdmin)
	var saw []int
	b.Run(t, "replica", seen{"origins": []string{"http://" + port.addr}, "public": "http://" + public,
		"control": control(t, map[string]func(){"stop": func() { _ = first.cmd.Process.Kill(); <-first.exited },
			"switch": func() { port.lead(secondAdmin) }})}, &saw)
	if len(saw) != 2 || saw[0] != 200 || saw[1] != 200 {
		t.Errorf("got %v", saw)
	}
}

// control returns a server by which a scenario acts outside of the browser: POST /name.
func control(t *testing.T, do map[string]func()) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	for name, what := range do {
		mux.HandleFunc("POST /"+name, func(http.ResponseWriter, *http.Request) { what() })
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// port is a TCP port that leads to an address.
type port struct {
	addr string
	mu   sync.Mutex
	to   string
}

func startPort(t *testing.T, to string) *port {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	p := &port{addr: ln.Addr().String(), to: to}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.forward(client, t.Context().Done()) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); all.Wait() })
	return p
}

func (p *port) lead(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}

// forward copies until either side or the test ends.
func (p *port) forward(client net.Conn, ended <-chan struct{}) {
	p.mu.Lock()
	to := p.to
	p.mu.Unlock()
	server, err := net.Dial("tcp", to)
	if err != nil {
		_ = client.Close()
		return
	}
	var both sync.WaitGroup
	stop := make(chan struct{})
	var once sync.Once
	end := func() { once.Do(func() { close(stop) }) }
	both.Go(func() { defer end(); _, _ = io.Copy(server, client) })
	both.Go(func() { defer end(); _, _ = io.Copy(client, server) })
	select {
	case <-stop:
	case <-ended:
	}
	_ = client.Close()
	_ = server.Close()
	both.Wait()
}
