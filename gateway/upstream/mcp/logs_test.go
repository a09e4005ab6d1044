//nolint:staticcheck // logging is deprecated, and still a part of the protocol
package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/upstream/sessions"
	"github.com/capgate/capgate/internal/mcpsession"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// levels is an mcpsession.Store of replicas in one process.
type levels struct {
	mu   sync.Mutex
	all  map[mcpsession.Key]string
	uris map[mcpsession.Key][]string
}

func (l *levels) URIs(_ context.Context, key mcpsession.Key) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.uris[key]), nil
}

func (l *levels) Subscribe(_ context.Context, key mcpsession.Key, uri string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.uris[key]) >= mcpsession.MaxURIs {
		return mcpsession.ErrFull
	}
	l.uris[key] = append(l.uris[key], uri)
	return nil
}

func (l *levels) Unsubscribe(_ context.Context, key mcpsession.Key, uri string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uris[key] = slices.DeleteFunc(l.uris[key], func(of string) bool { return of == uri })
	return nil
}

func (l *levels) Level(_ context.Context, key mcpsession.Key) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[key], nil
}

func (l *levels) SetLevel(_ context.Context, key mcpsession.Key, level string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[key] = level
	return nil
}

func (*levels) Watch(ctx context.Context, _ func(mcpsession.Change), _ func()) { <-ctx.Done() }

// withLevels gives a gateway levels of sessions.
func withLevels(o *gatewaytest.Options) {
	o.MCP.Levels = mcpsession.New(&levels{all: map[mcpsession.Key]string{}, uris: map[mcpsession.Key][]string{}})
}

// newLogging serves a tool that sends a log message of each level.
func newLogging(t *testing.T, old bool) *remote {
	t.Helper()
	r := newRemote(t, old)
	r.mcp.AddTool(&sdk.Tool{Name: "asks", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, q *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			for _, level := range []sdk.LoggingLevel{"debug", "info", "warning", "error"} {
				if err := q.Session.Log(ctx, &sdk.LoggingMessageParams{Level: level, Logger: "l",
					Data: string(q.Params.Arguments)}); err != nil {
					return nil, err
				}
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil
		})
	return r
}

// logged is a client that records log messages.
type logged struct {
	mu  sync.Mutex
	all []string
}

func (l *logged) client(change ...func(*sdk.ClientOptions)) *sdk.Client {
	o := &sdk.ClientOptions{
		LoggingMessageHandler: func(_ context.Context, q *sdk.LoggingMessageRequest) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.all = append(l.all, fmt.Sprint(q.Params.Level, " ", q.Params.Logger, " ", q.Params.Data))
		},
	}
	for _, c := range change {
		c(o)
	}
	return sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, o)
}

// take returns the messages since the last call, at least n, sorted: the SDK hands them over beside the result.
func (l *logged) take(t *testing.T, n int) (all []string) {
	t.Helper()
	check.Holds(t, "the log messages", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.all) < n {
			return false
		}
		all, l.all = l.all, nil
		return true
	})
	slices.Sort(all)
	return all
}

// wants compares the messages of a call at a level.
func (l *logged) wants(t *testing.T, level string, levels ...string) {
	t.Helper()
	var want []string
	for _, one := range levels {
		want = append(want, one+` l {"of":"`+level+`"}`)
	}
	slices.Sort(want)
	if got := l.take(t, len(want)); !slices.Equal(got, want) {
		t.Errorf("at the level %s the client gets %q", level, got)
	}
}

// callAt calls the tool at a level; empty means that the client sets none.
func callAt(t *testing.T, s *sdk.ClientSession, revision, level string) {
	t.Helper()
	p := &sdk.CallToolParams{Name: id + "__asks", Arguments: map[string]any{"of": level}}
	switch {
	case level == "":
	case revision == "2026-07-28":
		p.Meta = sdk.Meta{sdk.MetaKeyLogLevel: level}
	default:
		check.Must(t, s.SetLoggingLevel(within(t), &sdk.SetLoggingLevelParams{Level: sdk.LoggingLevel(level)}))
	}
	got, err := s.CallTool(within(t), p)
	if err != nil || got.Content[0].(*sdk.TextContent).Text != "done" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestLogsReachTheirCaller: the log messages of a server during a call reach the client of that call alone, at or above
// the level that it has set, in each combination of revisions. A client that has set none gets none.
func TestLogsReachTheirCaller(t *testing.T) {
	t.Parallel()
	inEachRevision(t, func(t *testing.T, old bool, client string) {
		w := startAsking(t, newLogging(t, old), nil, withLevels)
		var one, other logged
		of, silent := w.connect(t, one.client(), client), w.connect(t, other.client(), client)
		for _, c := range []struct {
			level string
			want  []string
		}{
			{"warning", []string{"warning", "error"}}, {"debug", []string{"debug", "info", "warning", "error"}},
			{"error", []string{"error"}}, {"alert", nil},
		} {
			callAt(t, of, client, c.level)
			callAt(t, silent, client, "")
			one.wants(t, c.level, c.want...)
		}
		if got := other.take(t, 0); got != nil {
			t.Errorf("a client without a level gets %q", got)
		}
	})
}

// TestLogsOfReplicas: calls at different levels in a session that replicas share get all messages of their levels. A
// call without a level gets none.
func TestLogsOfReplicas(t *testing.T) {
	t.Parallel()
	const revision = "2026-07-28" // of the client
	r := newLogging(t, true)
	j := newJournal(t, r)
	redis := gatewaytest.StartRedis(t)
	var logs [2]logged
	var none logged
	var of, silent [2]*sdk.ClientSession
	for n := range of {
		r.shared = &sessions.Shared{Store: redis.Open(t).UpstreamSessions(), Keys: secret}
		w := startAsking(t, r, nil, withLevels)
		of[n], silent[n] = w.connect(t, logs[n].client(), revision), w.connect(t, none.client(), revision)
	}
	all := []string{"debug", "info", "warning", "error"}
	for n, level := range []string{"debug", "error", "debug", "error", "debug", "alert", "debug"} {
		callAt(t, of[n%2], revision, level)
		callAt(t, silent[n%2], revision, "")
		logs[n%2].wants(t, level, map[string][]string{"debug": all, "error": all[3:]}[level]...)
	}
	if got := none.take(t, 0); got != nil {
		t.Errorf("a client without a level gets %q", got)
	}
	j.want(t, 1, 0)
}

// TestLogsOnTheSessionsStream: log messages on the stream of a session belong to no call, and reach no client, not even
// that of the only call that may be asked there: a call through another replica, or one that has ended, may have caused
// them. Those on the stream of the call reach its client.
func TestLogsOnTheSessionsStream(t *testing.T) {
	t.Parallel()
	const revision = "2025-11-25"
	var r *remote
	r = newStrayAsking(t, func(ctx context.Context) error {
		for s := range r.mcp.Sessions() {
			for data, of := range map[string]context.Context{"stray": context.Background(), "own": ctx} {
				if err := s.Log(of, &sdk.LoggingMessageParams{Level: "error", Logger: "l", Data: data}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	w := startAsking(t, r, []string{"elicitation"}, withLevels)
	var one logged
	s := w.connect(t, one.client(func(o *sdk.ClientOptions) {
		o.ElicitationHandler = func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann"}}, nil
		}
	}), revision)
	check.Must(t, s.SetLoggingLevel(within(t), &sdk.SetLoggingLevelParams{Level: "debug"}))
	for range 3 { // the question follows the message on the stream
		if text, failed := ask(t, s); failed || text != "Ann" {
			t.Errorf("%q, %t", text, failed)
		}
		if got := one.take(t, 1); !slices.Equal(got, []string{"error l own"}) {
			t.Errorf("the client gets %q", got)
		}
	}
	if got := one.take(t, 0); got != nil {
		t.Errorf("the client gets %q", got)
	}
}

// TestHostileLogs: log messages of other types, without a level, or too large, do not pass, and neither do endless
// ones. The call has its result.
func TestHostileLogs(t *testing.T) {
	t.Parallel()
	const many = 20_000
	good := `{"level":"error","data":{"n":12345678901234567890}}`
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			r := newLogging(t, old)
			r.hostile("tools/call", "", func(out http.ResponseWriter, _ *http.Request, id string) {
				out.Header().Set("Content-Type", "text/event-stream")
				send := func(params string) {
					_, _ = io.WriteString(out, `data: {"jsonrpc":"2.0","method":"notifications/message","params":`+
						params+"}\n\n")
				}
				for _, params := range []string{`{"level":"error"}`, `{"level":7,"data":"wrong"}`, `"wrong"`, `[]`,
					`{"data":"wrong"}`, `{"level":"fatal","data":"wrong"}`, `{"Level":"error","data":"wrong"}`,
					`{"level":"error","Data":"wrong"}`, `{"level":"error","logger":7,"data":"wrong"}`,
					`{"level":"error","logger":"` + strings.Repeat("wrong", 100) + `","data":1}`,
					`{"level":"error","data":"` + strings.Repeat("wrong", 4<<10) + `"}`,
					`{"level":"debug","data":"wrong"}`, good} {
					send(params)
				}
				for range many {
					send(`{"level":"error","data":"flood"}`)
				}
				_, _ = fmt.Fprintf(out, `data: {"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text",`+
					`"text":"done"}]}}`+"\n\n", id)
			})
			w := startAsking(t, r, nil, withLevels)
			text := w.postLevel(t, "info")
			if !strings.Contains(text, good) || strings.Contains(text, "wrong") || !strings.Contains(text, `"done"`) {
				t.Errorf("the client gets %.2000s", text)
			}
			if n := strings.Count(text, `"flood"`); n == 0 || n > many/2 {
				t.Errorf("%d of %d messages pass", n, many)
			}
			if text := w.postLevel(t, "loud"); !strings.Contains(text, `"code":-32602`) {
				t.Errorf("a level that is not one of MCP: %.300s", text)
			}
		})
	}
}

// postLevel calls the tool with a level, without an SDK.
func (w *mcpGateway) postLevel(t *testing.T, level string) string {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + id + `__asks","arguments":{},` +
		`"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/logLevel":"` + level + `",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`
	r, err := http.NewRequestWithContext(within(t), http.MethodPost, "http://"+w.gateway.Addr+"/mcp",
		strings.NewReader(body))
	check.Must(t, err)
	for name, value := range map[string]string{"Content-Type": "application/json",
		"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Method": "tools/call", "Mcp-Name": id + "__asks"} {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	check.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return string(text)
}
