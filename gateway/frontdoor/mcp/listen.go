package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/frontdoor/cors"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/stream"
	"github.com/capgate/capgate/internal/lib/accept"
	"github.com/capgate/capgate/internal/lib/strictjson"
)

// listenPause is the minimum time between two notifications.
const listenPause = time.Second

// Lists is a set of lists of a caller.
type Lists uint8

// Lists of a caller.
const (
	ToolList     Lists = 1 << iota
	PromptList         // prompts of MCP servers
	ResourceList       // resources and templates of MCP servers

	AllLists = ToolList | PromptList | ResourceList
)

// listChanges has the notification of a change of each list.
var listChanges = [...]struct { //nolint:gochecknoglobals // a table
	of     Lists
	method string
}{
	{ToolList, "notifications/tools/list_changed"},
	{PromptList, "notifications/prompts/list_changed"},
	{ResourceList, "notifications/resources/list_changed"},
}

// listChange holds the params of such a notification on the stream of a subscription.
type listChange struct {
	Meta sdk.Meta `json:"_meta"`
}

const resourceUpdated = "notifications/resources/updated"

// update holds the params of the notification of an update of a resource; Meta is empty on the stream of a session.
type update struct {
	Meta sdk.Meta `json:"_meta,omitempty"`
	URI  string   `json:"uri"`
}

// readListen reads the subscription of a message that is served without the SDK, like readDirect.
func (m *message) readListen(params strictjson.Value, header http.Header) error {
	if m.id == nil || !m.isPlain(header) {
		return nil
	}
	p := &sdk.SubscriptionsListenParams{Notifications: &sdk.NotificationSubscriptions{}}
	has := false
	for name, v := range params.Members() {
		switch {
		case v.Kind() != strictjson.Object:
			return nil
		case string(name.Bytes()) == "_meta":
		case string(name.Bytes()) != "notifications":
			return nil
		default:
			has = true
			for of, v := range v.Members() {
				if string(of.Bytes()) == "resourceSubscriptions" {
					uris := stringsIn(v)
					if uris == nil {
						return invalidParams("notifications.resourceSubscriptions must be a list of URIs")
					}
					p.Notifications.ResourceSubscriptions = uris
					continue
				}
				if v.Kind() != strictjson.True && v.Kind() != strictjson.False {
					return nil
				}
				wants := v.Kind() == strictjson.True
				switch string(of.Bytes()) {
				case "toolsListChanged":
					p.Notifications.ToolsListChanged = wants
				case "promptsListChanged":
					p.Notifications.PromptsListChanged = wants
				case "resourcesListChanged":
					p.Notifications.ResourcesListChanged = wants
				}
			}
		}
	}
	if has {
		m.listens = &sdk.SubscriptionsListenRequest{Params: p}
	}
	return nil
}

// stringsIn returns the elements of an array of strings; nil for another value.
func stringsIn(v strictjson.Value) []string {
	if v.Kind() != strictjson.Array {
		return nil
	}
	all := make([]string, 0, v.Len())
	for _, of := range v.Elements() {
		if of.Kind() != strictjson.String {
			return nil
		}
		all = append(all, string(of.Bytes()))
	}
	return all
}

// listsOf returns the lists that a client subscribes to.
func (h *Handler) listsOf(wants *sdk.NotificationSubscriptions) (all Lists) {
	if wants.ToolsListChanged {
		all |= ToolList
	}
	if wants.PromptsListChanged && h.cfg.Features != nil {
		all |= PromptList
	}
	if wants.ResourcesListChanged && h.cfg.Features != nil {
		all |= ResourceList
	}
	return all
}

// listen serves subscriptions/listen for the SDK, which has checked the headers (2026-07-28, Subscriptions). The stream
// lasts until the client disconnects.
func (h *Handler) listen(ctx context.Context, req *sdk.SubscriptionsListenRequest) (result sdk.Result, err error) {
	l, done, err := h.listenerOf(ctx, req)
	if err != nil {
		return nil, err
	}
	if aborted := l.serve(nil, func(failed error) { result, err = done(failed) }); aborted != nil {
		return nil, aborted
	}
	return result, err
}

// serveListen serves subscriptions/listen without the SDK. It holds no memory of the message while it waits.
func (h *Handler) serveListen(key requestKey, x *exchange) {
	ctx := x.r.Context()
	request, observe := x.read.listens, h.observing(ctx, x.read.method)
	x.read.body, x.read.memory, x.read.listens = nil, nil, nil
	answer := func(result sdk.Result, err error) {
		result, err = encoded(ctx, result, err)
		observe(result, err)
		x.memory = h.memories.take()
		h.writeDirect(x.out, x, result, err)
		h.memories.put(x.memory)
	}
	l, done, err := h.listenerOf(ctx, request)
	if err != nil {
		answer(nil, err)
		return
	}
	if x.read.mayStream {
		x.alive = keepAlive(x.events, h.cfg.Beat, l.leave)
	}
	remove := h.running.add(key, l.leave)
	aborted := l.serve(x.out, func(err error) {
		defer remove()
		answer(done(err))
	})
	if aborted != nil {
		panic(http.ErrAbortHandler)
	}
}

// listenerOf returns the listener of a subscription, and the function that returns the result at its end.
func (h *Handler) listenerOf(ctx context.Context, req *sdk.SubscriptionsListenRequest) (*listener,
	func(error) (sdk.Result, error), error) {
	x := exchangeOf(ctx)
	if req.Params.Notifications == nil || x.read.id == nil {
		return nil, nil, invalidParams("notifications must be an object with the notifications to listen to")
	}
	lists, uris := h.listsOf(req.Params.Notifications), req.Params.Notifications.ResourceSubscriptions
	switch {
	case !h.cfg.subscribes():
		uris = nil
	case tooMany(uris):
		return nil, nil, limited(subscriptionsLimited, 0, "a stream has at most 64 subscriptions to resources, with "+
			"32 KiB of URIs; subscribe to fewer")
	}
	out, meta := x.events, sdk.Meta{sdk.MetaKeySubscriptionID: json.RawMessage(x.read.id)}
	var updates *subscriptions
	if len(uris) > 0 {
		updates = h.newSubscriptions(ctx, x, func(uri string) error {
			return out.send(notification{"2.0", resourceUpdated, update{meta, uri}})
		})
	}
	begin := func() error {
		if len(uris) > 0 {
			uris = updates.of(uris)
			defer updates.changed()
		}
		return out.send(notification{"2.0", "notifications/subscriptions/acknowledged",
			sdk.SubscriptionsAcknowledgedParams{
				Meta: meta, Notifications: sdk.NotificationSubscriptions{ToolsListChanged: lists&ToolList != 0,
					PromptsListChanged: lists&PromptList != 0, ResourcesListChanged: lists&ResourceList != 0,
					ResourceSubscriptions: uris}}})
	}
	l := &listener{h: h, ctx: ctx, r: x.r, watches: lists != 0 || len(uris) > 0, lists: lists, begin: begin,
		told:    func(method string) error { return out.send(notification{"2.0", method, listChange{meta}}) },
		updates: updates}
	return l, func(err error) (sdk.Result, error) {
		updates.stop()
		if err != nil {
			return nil, err
		}
		result := &sdk.SubscriptionsListenResult{Meta: meta}
		result.ResultType = "complete"
		return result, nil
	}, nil
}

// primedVersion is the first revision whose streams start with an event without data.
const primedVersion = "2025-11-25"

// hasStreams reports whether the protocol revision of a request has sessions, where GET opens an event stream.
func hasStreams(r *http.Request) bool { return !isStateless(r) }

// isStateless reports whether the revision of a request has no sessions.
func isStateless(r *http.Request) bool {
	return r.Header.Get("Mcp-Protocol-Version") >= statelessVersion
}

// opensEvents reports whether a request opens a stream of events.
func opensEvents(r *http.Request) bool {
	return r.Method == http.MethodGet && hasStreams(r) && accept.Named(r.Header, stream.Events)
}

// serveEvents serves a GET with notifications of changed lists and of updates of resources (2025-11-25, Streamable
// HTTP, "Listening for Messages from the Server"). A client that reconnects starts again, at any replica. The id of the
// first event is for clients that would otherwise treat an ended stream as failed (2025-11-25, "Sending Messages to the
// Server").
func (h *Handler) serveEvents(w http.ResponseWriter, r *http.Request) {
	m := &message{version: r.Header.Get("Mcp-Protocol-Version")}
	if cors.CrossSite(r) {
		problem.CrossSite(w, r)
		return
	}
	if twice := checkSingle(r.Header); twice != nil {
		h.refuse(w, r, m, twice)
		return
	}
	s, refused := h.resume(r)
	if refused == nil {
		refused = m.checkVersion()
	}
	if refused != nil {
		h.refuse(w, r, m, refused)
		return
	}
	ctx, out := r.Context(), eventsTo(w)
	var alive *heartbeat
	var updates *subscriptions
	if h.cfg.subscribes() && s.ID != "" {
		updates = h.newSubscriptions(ctx, &exchange{r: r, read: m, session: s}, func(uri string) error {
			return out.send(notification{"2.0", resourceUpdated, update{URI: uri}})
		})
	}
	l := &listener{h: h, ctx: ctx, r: r, watches: true, lists: AllLists, updates: updates,
		told: func(method string) error { return out.send(notification{Version: "2.0", Method: method}) }}
	l.begin = func() error {
		alive = keepAlive(out, h.cfg.Beat, l.leave)
		defer updates.ofSession()
		if m.version < primedVersion {
			return out.Beat()
		}
		return out.Send([]byte("id: " + rand.Text() + "\ndata:\n\n"))
	}
	aborted := l.serve(w, func(err error) {
		updates.stop()
		alive.stop()
		if err != nil && !out.Begun() {
			h.refuse(w, r, m, err)
		}
	})
	if aborted != nil {
		panic(http.ErrAbortHandler)
	}
}
