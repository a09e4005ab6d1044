package mcp_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Watch implements mcp.Catalog: the tools change each millisecond.
func (a *asking) Watch(_ context.Context, notify func()) (mcp.Watch, error) {
	w := &changing{stop: make(chan struct{})}
	begun := time.Now()
	w.runs.Go(func() {
		for notify(); ; notify() {
			select {
			case <-w.stop:
				return
			case <-time.After(time.Millisecond):
				a.changes.Store(time.Since(begun).Milliseconds())
			}
		}
	})
	return w, nil
}

// changing is a watch of tools that change all the time.
type changing struct {
	stop chan struct{}
	runs sync.WaitGroup
}

func (*changing) Over() bool { return false }

func (*changing) Next() (mcp.Lists, error) { return mcp.ToolList, nil }

func (w *changing) Stop() {
	close(w.stop)
	w.runs.Wait()
}

// pieces is an endless answer. It counts what is taken of it.
type pieces struct {
	grpc.ClientStream
	ctx   context.Context
	taken *int
}

const piece = 16 << 10 // bytes

// NewStream implements grpc.ClientConnInterface.
func (a *asking) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream,
	error) {
	return &pieces{ctx: ctx, taken: &a.taken}, nil
}

func (*pieces) SendMsg(any) error            { return nil }
func (*pieces) CloseSend() error             { return nil }
func (*pieces) Header() (metadata.MD, error) { return metadata.MD{}, nil }

func (p *pieces) RecvMsg(m any) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	*p.taken++
	m.(*docpb.InvokeChunk).Data = bytes.Repeat([]byte("x"), piece)
	return nil
}

// unread is a response whose client reads nothing for a while: it has room for some bytes, and then blocks.
type unread struct {
	*httptest.ResponseRecorder
	room     int
	full     atomic.Bool // the room is used up
	until    time.Time   // when the client reads
	deadline time.Time
	events   int         // that the client has got
	fails    atomic.Bool // a write panics
}

// SetWriteDeadline is for http.ResponseController.
func (u *unread) SetWriteDeadline(at time.Time) error {
	u.deadline = at
	return nil
}

func (u *unread) Write(p []byte) (int, error) {
	if u.fails.Load() {
		panic(http.ErrAbortHandler)
	}
	if now := time.Now(); (u.room < len(p) || u.full.Load()) && now.Before(u.until) {
		if !u.deadline.IsZero() && u.deadline.Before(u.until) {
			<-time.After(u.deadline.Sub(now))
			return 0, os.ErrDeadlineExceeded
		}
		<-time.After(u.until.Sub(now))
	}
	u.room -= len(p)
	_, _ = u.ResponseRecorder.Write(p)
	u.events += bytes.Count(p, []byte("list_changed"))
	return len(p), nil
}

// TestUnreadStreams: the stream of a client that reads nothing ends. Until then it holds a fixed number of events, and
// of pieces of an answer, though there are many.
func TestUnreadStreams(t *testing.T) {
	t.Parallel()
	const (
		room  = 64 << 10
		never = 10 * time.Minute
		meta  = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":{},"progressToken":1}`
	)
	newest := func(method string) []string {
		return []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", "caps__echo"}
	}
	listens := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{` + meta +
		`,"notifications":{"toolsListChanged":true}}}`
	for name, c := range map[string]struct {
		method, body string
		header       []string
		room         int
	}{
		"the stream of a session": {"GET", "", []string{"Mcp-Protocol-Version", "2025-11-25"}, 1 << 10},
		"a subscription":          {"POST", listens, newest("subscriptions/listen"), 1 << 10},
		"a call": {"POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + meta + `,"name":"caps__echo"}}`,
			newest("tools/call"), room},
		"an old call": {"POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo",` +
			`"_meta":{"progressToken":"p"}}}`, []string{"Mcp-Protocol-Version", "2025-06-18"}, room},
	} {
		check.Bubble(t, func(t *testing.T) {
			a := newAsking(t)
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), never)
			defer cancel()
			w := &unread{ResponseRecorder: httptest.NewRecorder(), room: c.room, until: begun.Add(never)}
			a.ServeHTTP(w, a.request(c.method, c.body,
				append(c.header, "Accept", "application/json, text/event-stream")...).
				WithContext(ctx))
			if lasted := time.Since(begun); lasted > never/2 || lasted < time.Minute {
				t.Errorf("%s: it lasted %v", name, lasted)
			}
			if a.taken > room/piece+2 {
				t.Errorf("%s: %d pieces of the answer are taken, for a client that has room for %d", name, a.taken,
					room/piece)
			}
		})
	}
	for name, c := range map[string]struct {
		method, body string
		header       []string
	}{
		"the stream of a session": {"GET", "", []string{"Mcp-Protocol-Version", "2025-11-25"}},
		"a subscription":          {"POST", listens, newest("subscriptions/listen")},
	} {
		check.Bubble(t, func(t *testing.T) {
			const pause, all = 40 * time.Second, 50 * time.Second
			a := newAsking(t)
			ctx, cancel := context.WithTimeout(t.Context(), all)
			defer cancel()
			w := &unread{ResponseRecorder: httptest.NewRecorder(), until: time.Now().Add(pause)}
			a.ServeHTTP(w, a.request(c.method, c.body,
				append(c.header, "Accept", "application/json, text/event-stream")...).
				WithContext(ctx))
			if most := int((all - pause) / time.Second); w.events == 0 || w.events > most+2 || a.changes.Load() < 1000 {
				t.Errorf("%s: %d events about %d changes, of which the client saw %v", name, w.events,
					a.changes.Load(), all-pause)
			}
		})
	}
}

// request returns a request of a client. header are names and values in turn.
func (a *asking) request(method, body string, header ...string) *http.Request {
	r := httptest.NewRequestWithContext(a.t.Context(), method, mcp.Path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}
