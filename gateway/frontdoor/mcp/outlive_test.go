package mcp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/mcpsession"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/metrictest"
)

// lasting serves streams of changes that outlive their handlers.
type lasting struct {
	*asking
	w              *unread
	notify         func()
	changed, over  atomic.Bool
	stopped, ended atomic.Int32
	gone           func() // the client disconnects
	after          string // what had been sent at the end
	aborted        error  // at the end
}

// newLasting returns a front door with features of MCP servers; nil means none.
func newLasting(t *testing.T, features mcp.Features) *lasting {
	l := &lasting{asking: newAsking(t), w: &unread{ResponseRecorder: httptest.NewRecorder(), room: 1 << 20,
		until: time.Now().Add(time.Hour)}}
	l.changed.Store(true)
	caller := func(*http.Request) string { return l.caller }
	l.Handler = mcp.New(mcp.Config{Features: features, Questions: questions.New(), Levels: mcpsession.New(nil),
		Conn: l, Unary: l.call, Catalog: l, Authenticate: allowed, Invokes: allowed,
		Lists: allowed, Tenant: caller, Caller: caller,
		Keys: func(context.Context) [][]byte { return [][]byte{make([]byte, aead.KeyBytes)} },
		Outlive: func(_ *http.Request, gone func()) func(error) {
			l.gone = gone
			return func(aborted error) {
				l.aborted = aborted
				l.ended.Add(1)
				l.after = l.w.Body.String()
			}
		}})
	return l
}

// Watch implements mcp.Catalog.
func (l *lasting) Watch(_ context.Context, notify func()) (mcp.Watch, error) {
	l.notify = notify
	return l, nil
}

// Over implements mcp.Watch, as the other methods do.
func (l *lasting) Over() bool { return l.over.Load() }

func (l *lasting) Next() (changed mcp.Lists, err error) {
	if l.changed.Swap(false) {
		changed = mcp.ToolList
	}
	return changed, nil
}

func (l *lasting) Stop() { l.stopped.Add(1) }

// Messages of a client.
const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	cancels = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
)

// silent has MCP servers that do not answer.
type silent struct{ mcp.Features }

func (silent) Resources(ctx context.Context, _ bool) ([]mcp.Offer, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestCancelledBeforeServersAnswer: a cancellation ends a stream at once whose subscriptions wait for their servers.
func TestCancelledBeforeServersAnswer(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		l := newLasting(t, silent{})
		session := l.send(initialize).Header().Get("Mcp-Session-Id")
		served := make(chan struct{})
		go func() {
			defer close(served)
			l.ServeHTTP(l.w, l.request("POST", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{`+
				`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
				`"io.modelcontextprotocol/clientCapabilities":{}},`+
				`"notifications":{"resourceSubscriptions":["note://a"]}}}`,
				"Mcp-Protocol-Version", "2026-07-28", "Accept", accepts, "Mcp-Method", "subscriptions/listen",
				"Mcp-Session-Id", session))
		}()
		synctest.Wait()
		begun := time.Now()
		l.send(cancels, "Mcp-Session-Id", session)
		<-served
		synctest.Wait()
		if took := time.Since(begun); took != 0 || l.stopped.Load() != 1 {
			t.Errorf("the stream ended %v later, with %d ends of the watch: %s", took, l.stopped.Load(), l.w.Body)
		}
	})
}

// TestStreamsOutliveTheirHandlers: the handler of a stream of changes returns when the stream has begun. The stream has
// heartbeats and notifications, and ends once, when it is cancelled, its client disconnects or reads nothing, or its
// credential ends. Its request is counted then.
func TestStreamsOutliveTheirHandlers(t *testing.T) {
	t.Parallel()
	const (
		listens = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{` +
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}` +
			`,"notifications":{"toolsListChanged":true}}}`
		result     = `"resultType":"complete"`
		incomplete = "an incomplete response"
	)
	forms := map[string]func(l *lasting, session string) *http.Request{
		"a stream of a session": func(l *lasting, session string) *http.Request {
			return l.request("GET", "", "Mcp-Protocol-Version", "2025-11-25", "Accept", "text/event-stream",
				"Mcp-Session-Id", session)
		},
		"a subscription": func(l *lasting, session string) *http.Request {
			return l.request("POST", listens, "Mcp-Protocol-Version", "2026-07-28", "Accept", accepts, "Mcp-Method",
				"subscriptions/listen", "Mcp-Session-Id", session)
		},
	}
	ends := map[string]func(l *lasting, session string){
		"the client disconnects": func(l *lasting, _ string) { l.gone() },
		"the client reads nothing": func(l *lasting, _ string) {
			l.w.full.Store(true)
			<-time.After(2 * time.Minute)
		},
		"the credential ends": func(l *lasting, _ string) {
			l.over.Store(true)
			l.notify()
		},
		"a cancellation": func(l *lasting, session string) { l.send(cancels, "Mcp-Session-Id", session) },
		incomplete: func(l *lasting, session string) {
			l.w.fails.Store(true)
			l.send(cancels, "Mcp-Session-Id", session)
		},
	}
	for form, request := range forms {
		for how, end := range ends {
			if form != "a subscription" && (how == "a cancellation" || how == incomplete) {
				continue // only requests have an id
			}
			check.Bubble(t, func(t *testing.T) {
				l := newLasting(t, nil)
				session := l.send(initialize).Header().Get("Mcp-Session-Id")
				l.ServeHTTP(l.w, request(l, session))
				if l.gone == nil || l.ended.Load() != 0 {
					t.Fatalf("%s: the handler has returned with %q", form, l.w.Body)
				}
				<-time.After(time.Minute)
				l.changed.Store(true)
				l.notify()
				synctest.Wait()
				if got := l.w.Body.String(); strings.Count(got, ":\n\n") < 5 ||
					strings.Count(got, "list_changed") != 1 {
					t.Errorf("%s: the client has got %q", form, got)
				}
				end(l, session)
				synctest.Wait()
				if a, b := l.ended.Load(), l.stopped.Load(); a != 1 || b != 1 || !l.w.deadline.IsZero() {
					t.Errorf("%s, %s: %d ends of the response, %d of the watch, deadline %v", form, how, a, b,
						l.w.deadline)
				}
				if errors.Is(l.aborted, http.ErrAbortHandler) != (how == incomplete) {
					t.Errorf("%s, %s: the response is incomplete: %v", form, how, l.aborted)
				}
				l.changed.Store(true)
				l.notify()
				<-time.After(5 * time.Minute)
				if got := l.w.Body.String(); got != l.after || l.ended.Load() != 1 || l.stopped.Load() != 1 {
					t.Errorf("%s, %s: after its end it got %q", form, how, strings.TrimPrefix(got, l.after))
				}
				if form != "a subscription" || how == incomplete {
					return
				}
				const counted = `mcp_server_operation_duration_seconds{mcp_method_name="subscriptions/listen",` +
					`gen_ai_tool_name="",error_type="",mcp_protocol_version="2026-07-28",network_transport="tcp"}`
				if all := metrictest.Read(t, l); all[counted] != 1 {
					t.Errorf("%s: %v", how, all)
				}
				if got := strings.Contains(l.after, result); got != (how != "the client reads nothing") {
					t.Errorf("%s: it ends with %q", how, l.after)
				}
			})
		}
	}
}
