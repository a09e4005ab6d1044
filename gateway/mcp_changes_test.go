package gateway_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

type listedTools = tools.Usable // the embedded field must not have the name of its method

// watched notifies the test when a list is read.
type watched struct {
	listedTools
	next chan struct{}
}

func (w *watched) Fingerprint(ctx context.Context, caller *tenant.Identity, hints func(string, string) byte) (
	[sha256.Size]byte, error) {
	sum, err := w.listedTools.Fingerprint(ctx, caller, hints)
	w.next <- struct{}{}
	return sum, err
}

// changeStream is an open stream of change notifications.
type changeStream struct {
	resp  *http.Response
	lines *bufio.Reader
}

// next returns the data of the next event: empty for a comment, "EOF" at the end of the stream.
func (s *changeStream) next(t *testing.T) string {
	t.Helper()
	var data string
	for {
		line, err := s.lines.ReadString('\n')
		switch text := strings.TrimSuffix(line, "\n"); {
		case err == io.EOF:
			return "EOF"
		case err != nil:
			t.Fatal(err)
		case text == "":
			return data
		case strings.HasPrefix(text, "data: "):
			data = text[6:]
		}
	}
}

// listen opens the stream of change notifications of a revision.
func (f *mcpFront) listen(t *testing.T, revision string, header ...string) *changeStream {
	t.Helper()
	var resp *http.Response
	if revision == revisions[0] {
		resp = f.open(t, http.MethodPost, `{"jsonrpc":"2.0","id":"s1","method":"subscriptions/listen","params":{`+
			newestMeta+`,"notifications":{"toolsListChanged":true,"promptsListChanged":true}}}`,
			append(header, "Mcp-Protocol-Version", revision, "Mcp-Method", "subscriptions/listen")...)
	} else {
		resp = f.open(t, http.MethodGet, "",
			append(header, "Accept", "text/event-stream", "Mcp-Protocol-Version", revision)...)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s: %d %v", revision, resp.StatusCode, resp.Header)
	}
	return &changeStream{resp, bufio.NewReader(resp.Body)}
}

// TestMCPListChanged: a listening client is notified when the list of its tools changes, and only then. The
// stream ends when the gateway stops.
func TestMCPListChanged(t *testing.T) {
	t.Parallel()
	for i := range 2 * len(revisions) {
		revision, http2 := revisions[i/2], i%2 == 1
		t.Run(fmt.Sprint(revision, " over HTTP/2: ", http2), func(t *testing.T) {
			t.Parallel()
			looks := &watched{next: make(chan struct{}, 10)}
			f := startMCP(t, func(o *gatewaytest.Options) { looks.listedTools, o.MCP.Usable = o.MCP.Usable, looks })
			f.http2 = http2
			s := f.listen(t, revision)
			begun, changed, ended := "", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, "EOF"
			if revision == revisions[0] {
				const of = `"_meta":{"io.modelcontextprotocol/subscriptionId":"s1"}`
				begun = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + of +
					`,"notifications":{"toolsListChanged":true,"promptsListChanged":true}}}`
				changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{` + of + `}}`
				ended = `{"jsonrpc":"2.0","id":"s1","result":{"resultType":"complete","_meta":{` +
					`"io.modelcontextprotocol/serverInfo":{"name":"capgate","title":"capgate","version":"dev"},` +
					`"io.modelcontextprotocol/subscriptionId":"s1"}}}`
			}
			if got := s.next(t); got != begun {
				t.Errorf("the stream begins with %s", got)
			}
			check.Received(t, looks.next, "the first look at the list")
			f.declare(t, allTools[:5]...) // without the tool that the caller may not use
			check.Received(t, looks.next, "a look at the list")
			f.declare(t, gatewaytest.Echo)
			if got := s.next(t); got != changed {
				t.Errorf("the client got %s", got)
			}
			list, err := f.session(t, revision, nil).ListTools(t.Context(), nil)
			if err != nil || len(list.Tools) != 1 {
				t.Errorf("got %v %v", list, err)
			}
			go f.gateway.Stop(t)
			if got := s.next(t); got != ended {
				t.Errorf("the stream ends with %s", got)
			}
		})
	}
}

// TestMCPListChangedClient: the SDK's client receives the notification in each revision.
func TestMCPListChangedClient(t *testing.T) {
	t.Parallel()
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			f := startMCP(t)
			notified := make(chan struct{}, 10)
			f.session(t, revision, &sdk.ClientOptions{
				ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { notified <- struct{}{} }})
			n := 2
			check.Holds(t, "the client to listen, and to be told", func() bool {
				n = 3 - n
				f.declare(t, allTools[:n]...)
				return len(notified) > 0
			})
		})
	}
}

// TestMCPListenEnds: a stream ends when its credential does.
func TestMCPListenEnds(t *testing.T) {
	t.Parallel()
	follows := make(chan context.CancelFunc, 1)
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.MCP.Follow = func(ctx context.Context, _ func(context.Context) bool) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			follows <- cancel
			return ctx, cancel
		}
	})
	for i := range 2 * len(revisions) {
		revision := revisions[i/2]
		f.http2 = i%2 == 1
		s := f.listen(t, revision)
		s.next(t)
		check.Received(t, follows, "the client to follow the tools")()
		for got := ""; got != "EOF"; got = s.next(t) {
			if strings.Contains(got, "error") {
				t.Errorf("%s, over HTTP/2 %t: %s", revision, f.http2, got)
			}
		}
	}
}

// TestMCPListenRefused: a session that does not exist, or has another revision, cannot listen.
func TestMCPListenRefused(t *testing.T) {
	t.Parallel()
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.MCP.Keys = gatewaytest.SharedKeys
	})
	for name, c := range map[string]struct {
		header []string
		status int
	}{
		"a forged session":    {[]string{"Mcp-Session-Id", "forged"}, http.StatusNotFound},
		"an unknown revision": {[]string{"Mcp-Protocol-Version", "2024-01-01"}, http.StatusBadRequest},
		"another site":        {[]string{"Origin", "https://evil.example"}, http.StatusForbidden},
	} {
		resp := f.open(t, http.MethodGet, "", append(c.header, "Accept", "text/event-stream")...)
		if resp.StatusCode != c.status {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
	}
	for _, c := range []struct{ params, header, want string }{
		{`"notifications":{"toolsListChanged":true}`, "2025-11-25", `"code":-32601`},
		{newestMeta, "2026-07-28", `"code":-32602`},
		{newestMeta + `,"notifications":7`, "2026-07-28", `"code":-32602`},
	} {
		_, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{`+c.params+`}}`,
			"Mcp-Protocol-Version", c.header, "Mcp-Method", "subscriptions/listen")
		if !strings.Contains(text, c.want) {
			t.Errorf("%s: %s", c.params, text)
		}
	}
}
