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
	"github.com/capgate/capgate/internal/lib/backoff"
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

// watching is a stream that notifies a client of changes of its lists.
type watching struct {
	h     *Handler
	r     *http.Request
	lists Lists                     // of which the client is notified
	begin func() error              // notifies the client that the stream is open
	told  func(method string) error // notifies the client of a change
}

// run watches the lists of the request's caller until ctx or the caller's credential ends, or the gateway stops. It has
// no goroutine of its own, because there may be many streams.
func (w *watching) run(ctx context.Context) error {
	begun, searches := false, false
	return w.h.cfg.Catalog.Watch(ctx, func(changed Lists) error {
		before := searches
		searches = w.h.searches(w.r)
		switch {
		case !begun:
			begun = true
			return w.begin()
		case before && searches: // the list still has the same two tools
			changed &^= ToolList
		}
		for _, l := range listChanges {
			if changed&w.lists&l.of == 0 {
				continue
			}
			if err := w.told(l.method); err != nil {
				return err
			}
		}
		backoff.Sleep(ctx, listenPause)
		return nil
	})
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

// listen serves subscriptions/listen, whose headers the SDK has checked (2026-07-28, Subscriptions). The stream lasts
// until the client disconnects.
func (h *Handler) listen(ctx context.Context, req *sdk.SubscriptionsListenRequest) (sdk.Result, error) {
	x := exchangeOf(ctx)
	if req.Params.Notifications == nil || x.read.id == nil {
		return nil, invalidParams("notifications must be an object with the notifications to listen to")
	}
	lists, uris := h.listsOf(req.Params.Notifications), req.Params.Notifications.ResourceSubscriptions
	switch {
	case !h.cfg.subscribes():
		uris = nil
	case tooMany(uris):
		return nil, limited(subscriptionsLimited, 0, "a stream has at most 64 subscriptions to resources, with 32 KiB "+
			"of URIs; subscribe to fewer")
	}
	out, meta := x.events, sdk.Meta{sdk.MetaKeySubscriptionID: json.RawMessage(x.read.id)}
	updates := h.newSubscriptions(ctx, x, func(uri string) error {
		return out.send(notification{"2.0", resourceUpdated, update{meta, uri}})
	})
	defer updates.stop()
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
	var err error
	if lists != 0 || len(uris) > 0 {
		w := watching{h, x.r, lists, begin, func(method string) error {
			return out.send(notification{"2.0", method, listChange{meta}})
		}}
		err = w.run(ctx)
	} else {
		err = begin()
	}
	if err != nil {
		return nil, err
	}
	result := &sdk.SubscriptionsListenResult{Meta: meta}
	result.ResultType = "complete"
	return result, nil
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
	ctx, leave := context.WithCancel(r.Context())
	defer leave()
	out := eventsTo(w)
	var alive *heartbeat
	defer func() { alive.stop() }()
	updates := h.newSubscriptions(ctx, &exchange{r: r, read: m, session: s}, func(uri string) error {
		return out.send(notification{"2.0", resourceUpdated, update{URI: uri}})
	})
	defer updates.stop()
	watch := watching{h, r, AllLists, func() error {
		alive = keepAlive(out, h.cfg.Beat, leave)
		defer updates.ofSession()
		if m.version < primedVersion {
			return out.Beat()
		}
		return out.Send([]byte("id: " + rand.Text() + "\ndata:\n\n"))
	}, func(method string) error {
		return out.send(notification{Version: "2.0", Method: method})
	}}
	if err := watch.run(ctx); err != nil && !out.Begun() {
		h.refuse(w, r, m, err)
	}
}
