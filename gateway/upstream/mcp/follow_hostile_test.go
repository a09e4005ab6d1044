package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/internal/mcpsession"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy/approvals"
)

// streams makes serve the streams of updates of note://a. send sends an update.
func (u *updating) streams(serve func(send func(uri string), ended <-chan struct{})) {
	next := *u.handler.Load()
	served := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		q.Body = io.NopCloser(strings.NewReader(string(body)))
		listens := strings.Contains(string(body), `"subscriptions/listen"`) && strings.Contains(string(body), "note://a")
		if !listens && !u.isSubscribed(q) {
			next.ServeHTTP(w, q)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(method, params string) {
			_, _ = fmt.Fprintf(w, `data: {"jsonrpc":"2.0","method":%q,"params":%s}`+"\n\n", method, params)
			_ = http.NewResponseController(w).Flush()
		}
		_ = http.NewResponseController(w).Flush()
		if listens {
			send("notifications/subscriptions/acknowledged", `{"notifications":{"resourceSubscriptions":["note://a"]}}`)
		}
		serve(func(uri string) {
			send("notifications/resources/updated", fmt.Sprintf(`{"uri":%q}`, uri))
		}, q.Context().Done())
	}))
	u.handler.Store(&served)
}

// isSubscribed reports whether a request opens the stream of a session that has subscribed to note://a.
func (u *updating) isSubscribed(q *http.Request) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return q.Method == http.MethodGet && u.subscribed[[2]string{q.Header.Get("Mcp-Session-Id"), "note://a"}]
}

// TestFloodOfUpdates: many updates of a resource become few.
func TestFloodOfUpdates(t *testing.T) {
	t.Parallel()
	const many = 200
	inEachRevision(t, func(t *testing.T, old bool, client string) {
		u := newUpdating(t, old)
		w := startAsking(t, u.remote, nil, withLevels)
		var c subscriber
		s := w.connect(t, c.client(), client)
		var streams atomic.Int32
		flooded := int32(1)
		if !old && client == "2025-11-25" { // the first one shows whether the server accepts the subscription
			flooded = 2
		}
		u.streams(func(send func(string), ended <-chan struct{}) {
			if streams.Add(1) != flooded {
				<-ended
				return
			}
			for range many {
				send("note://a")
			}
		})
		subscribe(t, s, "note://a")
		check.Until(t, "another stream after the flood", func() (bool, string) { return streams.Load() > flooded, "" })
		check.Until(t, "updates", func() (bool, string) { return c.count() > 1, "" })
		if n := c.count(); n > many/4 {
			t.Errorf("the client gets %d of %d updates", n, many)
		}
		check.Must(t, s.Close())
	})
}

// TestForeignUpdates: updates of resources to which no client has subscribed are none of those to which one has, on the
// same stream.
func TestForeignUpdates(t *testing.T) {
	t.Parallel()
	u, begin := newUpdating(t, true), make(chan struct{})
	u.streams(func(send func(string), ended <-chan struct{}) {
		select {
		case <-begin:
		case <-ended:
			return
		}
		for range 50 {
			for _, uri := range []string{"note://c", "note://ab", "note://"} {
				send(uri)
			}
		}
		send("note://b")
		<-ended
	})
	w := startAsking(t, u.remote, nil, withLevels)
	var c subscriber
	s := w.connect(t, c.client(), "2026-07-28")
	subscribe(t, s, "note://a")
	subscribe(t, s, "note://b")
	close(begin)
	check.Until(t, "an update of note://b", func() (bool, string) { return c.has("note://b"), "" })
	if c.count() > 0 {
		t.Error("the client gets an update of another resource")
	}
	check.Must(t, s.Close())
}

// begins holds the params of initialize.
const begins = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`

// post sends a request of a session, without an SDK, and returns the response.
func post(t *testing.T, w *mcpGateway, key, session, method, params string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(within(t), http.MethodPost, "http://"+w.gateway.Addr+"/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
	check.Must(t, err)
	for name, value := range map[string]string{"Content-Type": "application/json", "X-Api-Key": key,
		"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2025-11-25",
		"Mcp-Session-Id": session} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(r)
	check.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	if method == "initialize" {
		return resp.Header.Get("Mcp-Session-Id")
	}
	return string(text)
}

// TestHostileSubscriptions: subscriptions to unknown resources, without a session, in the session of another caller,
// and beyond the limits, each have an error. So do those at a server that sends no updates.
func TestHostileSubscriptions(t *testing.T) {
	t.Parallel()
	var keys map[string]string
	u := newUpdating(t, true)
	w := startAsking(t, u.remote, nil, withLevels, func(o *gatewaytest.Options) { keys = ofTwoTenants(t, o) })
	silent := startAsking(t, newFeatures(t, true), nil, withLevels)
	session := post(t, w, keys["acme"], "", "initialize", begins)
	other, long := post(t, silent, "", "", "initialize", begins), strings.Repeat("a", 2048)
	const on, off = "resources/subscribe", "resources/unsubscribe"
	for name, c := range map[string]struct {
		w                       *mcpGateway
		tenant, session, method string
		params, want            string
	}{
		"unknown":           {w, "acme", session, on, `{"uri":"capgate:none:note://a"}`, `"code":-32002`},
		"no URI":            {w, "acme", session, on, `{"uri":"x y"}`, `"code":-32002`},
		"too long":          {w, "acme", session, on, `{"uri":"a:` + long + `"}`, `"code":-32002`},
		"a number":          {w, "acme", session, on, `{"uri":7}`, `"INVALID_BODY"`},
		"nothing":           {w, "acme", session, on, `{}`, "uri is missing"},
		"an empty URI":      {w, "acme", session, off, `{"uri":""}`, "uri is missing"},
		"no session":        {w, "acme", "", on, `{"uri":"note://a"}`, `"MCP_SESSION_UNKNOWN"`},
		"ended without one": {w, "acme", "", off, `{"uri":"note://a"}`, `"MCP_SESSION_UNKNOWN"`},
		"another caller":    {w, "globex", session, on, `{"uri":"note://a"}`, `"MCP_SESSION_UNKNOWN"`},
		"ended by another":  {w, "globex", session, off, `{"uri":"note://a"}`, `"MCP_SESSION_UNKNOWN"`},
		"not subscribed":    {w, "acme", session, off, `{"uri":"note://b"}`, `"result":{}`},
		"a silent server":   {silent, "", other, on, `{"uri":"bytes://a"}`, `sends no updates`},
		"of a new revision": {w, "acme", session, "subscriptions/listen", `{}`, `"METHOD_UNKNOWN"`},
	} {
		if got := post(t, c.w, keys[c.tenant], c.session, c.method, c.params); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	for i := range mcpsession.MaxURIs {
		if got := post(t, w, keys["acme"], session, "resources/subscribe",
			fmt.Sprintf(`{"uri":"note://%d"}`, i)); !strings.Contains(got, `"result":{}`) {
			t.Fatal(got)
		}
	}
	if got := post(t, w, keys["acme"], session, "resources/subscribe", `{"uri":"note://a"}`); !strings.Contains(got,
		`"MCP_SUBSCRIPTIONS_LIMITED"`) || !strings.Contains(got, "unsubscribe from one first") ||
		strings.Contains(got, "retry_after") {
		t.Errorf("a subscription too many: %s", got)
	}
	if u.sessions("note://a")+u.sessions("note://0") != 0 {
		t.Error("the server has a subscription that no stream needs")
	}
}

// TestSubscriptionsToUnknownResources: a subscription to a resource that its server does not have is one to an unknown
// resource.
func TestSubscriptionsToUnknownResources(t *testing.T) {
	t.Parallel()
	for _, failure := range []string{`"code":-32602`, `"code":-32002`, `"code":-32601`} {
		u := newUpdating(t, true)
		u.hostile("resources/subscribe", "", says(200, "application/json",
			`{"jsonrpc":"2.0","id":ID,"error":{`+failure+`,"message":"x"}}`))
		w := startAsking(t, u.remote, nil, withLevels)
		session := post(t, w, "", "", "initialize", begins)
		if got := post(t, w, "", session, "resources/subscribe", `{"uri":"note://a"}`); !strings.Contains(got,
			`"code":-32002`) {
			t.Errorf("%s: %s", failure, got)
		}
	}
}

// TestSubscriptionsWithoutAStream: subscriptions of a session that replicas share do not stay at the server while the
// client has no stream.
func TestSubscriptionsWithoutAStream(t *testing.T) {
	t.Parallel()
	u := newUpdating(t, true)
	w := u.replicas(t, true).others
	session := post(t, w, "", "", "initialize", begins)
	for _, method := range []string{"resources/subscribe", "resources/subscribe", "resources/unsubscribe",
		"resources/subscribe"} {
		if got := post(t, w, "", session, method, `{"uri":"note://a"}`); !strings.Contains(got, `"result":{}`) {
			t.Error(got)
		}
		if n := u.sessions("note://a"); n != 0 {
			t.Errorf("after %s, the server has %d subscriptions", method, n)
		}
	}
}

// TestSubscriptionsHaveNoApproval: a subscription that needs an approval is refused, and creates none.
func TestSubscriptionsHaveNoApproval(t *testing.T) {
	t.Parallel()
	var key string
	var desk *approvals.Service
	u := newUpdating(t, true)
	w := startAsking(t, u.remote, nil, withLevels, func(o *gatewaytest.Options) {
		key = askingApprovals(t, o)
		desk = o.Approver.(*approvals.Service) //nolint:forcetypeassert // it is one
	})
	session := post(t, w, key, "", "initialize", begins)
	if got := post(t, w, key, session, "resources/subscribe", `{"uri":"note://a"}`); !strings.Contains(got,
		`"APPROVAL_IMPOSSIBLE"`) || !strings.Contains(got, "allow resources/subscribe of "+id) {
		t.Error(got)
	}
	page, _, err := desk.List(within(t), "acme", approvals.Filter{}, "", 1)
	if check.Must(t, err); len(page) != 0 {
		t.Errorf("there is an approval: %+v", page)
	}
}

// TestManySubscriptionsOfAStream: a stream of 2026-07-28 acknowledges the subscriptions that the server accepts, and is
// refused if there are too many.
func TestManySubscriptionsOfAStream(t *testing.T) {
	t.Parallel()
	w := startAsking(t, newUpdating(t, true).remote, nil, withLevels)
	listen := func(uris ...string) string {
		text, err := json.Marshal(uris)
		check.Must(t, err)
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.gateway.Addr+"/mcp", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":`+
				`{"resourceSubscriptions":`+string(text)+`},"_meta":{`+
				`"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
				`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},`+
				`"io.modelcontextprotocol/clientCapabilities":{}}}}`))
		check.Must(t, err)
		for name, value := range map[string]string{"Content-Type": "application/json",
			"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
			"Mcp-Method": "subscriptions/listen"} {
			r.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(r)
		check.Must(t, err)
		defer func() { _ = resp.Body.Close() }()
		first := make([]byte, 4<<10)
		n, err := resp.Body.Read(first)
		if n == 0 {
			t.Error(err)
		}
		return string(first[:n])
	}
	if got := listen("note://a", "capgate:none:note://a", "x y", "note://b", "note://a"); !strings.Contains(got,
		`"resourceSubscriptions":["note://a","note://b"`) || strings.Contains(got, "none") {
		t.Errorf("the acknowledgment is %s", got)
	}
	many := make([]string, mcpsession.MaxURIs+1)
	for i := range many {
		many[i] = fmt.Sprint("note://", i)
	}
	if got := listen(many...); !strings.Contains(got, "MCP_SUBSCRIPTIONS_LIMITED") {
		t.Errorf("too many: %s", got)
	}
	if got := listen(strings.Repeat("a", mcpsession.MaxURIBytes+1)); !strings.Contains(got,
		"MCP_SUBSCRIPTIONS_LIMITED") {
		t.Errorf("too long: %s", got)
	}
}
