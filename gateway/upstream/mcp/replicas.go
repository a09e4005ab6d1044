package mcp

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/upstream/sessions"
	"github.com/capgate/capgate/internal/lib/plainjson"
)

// Replicas share the sessions of callers at servers. In the protocol the client of a session counts its requests, so
// each replica that continues one has a range of ids for its own.
const (
	rangeBits = 32      // bits of an id that count the requests of one replica
	maxRanges = 1 << 21 // ranges of a session: ids are below 1 << 53, as JSON has them
)

// opened is an open session at a server.
type opened struct {
	*sdk.ClientSession
	link *link
}

// record is a session as replicas share it.
type record struct {
	ID     string                `json:"id"`
	Result *sdk.InitializeResult `json:"result"`
}

// link is the HTTP client of one session.
type link struct {
	*transport
	place atomic.Pointer[sessions.Place] // nil means that no other replica uses the session
	of    *record                        // the session that the link continues; nil means a new one
	begun atomic.Bool                    // the SDK has opened the continued session
	level atomic.Uint32                  // questions.Level of log messages that was set; 0 means none

	url      string
	listener listener
}

// Close ends the session, and its stream before.
func (o *opened) Close() error {
	o.link.listener.close()
	return o.ClientSession.Close()
}

// RoundTrip implements http.RoundTripper. A session that replicas share does not end with its link, and the one that
// it continues is not opened again.
func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodDelete && l.place.Load() != nil {
		return respond(r, http.StatusNoContent, nil), nil
	}
	if l.of == nil {
		return l.transport.RoundTrip(r)
	}
	if !l.begun.Load() {
		switch sent := headOf(r); sent.Method {
		case "initialize":
			result, err := json.Marshal(l.of.Result)
			if err != nil {
				return nil, err
			}
			text, err := plainjson.Marshal(wire{Version: "2.0", ID: sent.ID, Result: result})
			resp := respond(r, http.StatusOK, text)
			resp.Header.Set("Content-Type", "application/json")
			resp.Header.Set("Mcp-Session-Id", l.of.ID)
			return resp, err
		case "notifications/initialized":
			l.begun.Store(true)
			return respond(r, http.StatusAccepted, nil), nil
		}
	}
	r = r.Clone(r.Context())
	r.Header.Set("Mcp-Protocol-Version", l.of.Result.ProtocolVersion) // the SDK sets it for connections of its own
	return l.transport.RoundTrip(r)
}

// respond returns a response that no server has sent.
func respond(r *http.Request, code int, text []byte) *http.Response {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return &http.Response{StatusCode: code, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(string(text))), ContentLength: int64(len(text)), Request: r}
}

// numbering is a transport of the SDK whose requests have ids after first.
type numbering struct {
	sdk.Transport
	first int64
}

// Connect implements sdk.Transport.
func (n *numbering) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := n.Transport.Connect(ctx)
	return &numbered{c, n.first}, err
}

// numbered is the connection of a numbering.
type numbered struct {
	sdk.Connection
	first int64
}

// Write implements sdk.Connection.
func (n *numbered) Write(ctx context.Context, m jsonrpc.Message) error {
	r, is := m.(*jsonrpc.Request)
	if !is {
		return n.Connection.Write(ctx, m)
	}
	sent := *r
	var err error
	switch {
	case r.IsCall():
		sent.ID, err = shifted(r.ID, n.first)
	case r.Method == "notifications/cancelled":
		sent.Params, err = n.cancelled(r.Params)
	}
	if err != nil {
		return err
	}
	return n.Connection.Write(ctx, &sent)
}

// cancelled returns the parameters of a cancellation with the id as sent.
func (n *numbered) cancelled(params json.RawMessage) (json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(params, &all); err != nil {
		return nil, err
	}
	var id int64
	if err := json.Unmarshal(all["requestId"], &id); err != nil {
		return nil, err
	}
	var err error
	if all["requestId"], err = json.Marshal(n.first + id); err != nil {
		return nil, err
	}
	return plainjson.Marshal(all)
}

// Read implements sdk.Connection.
func (n *numbered) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := n.Connection.Read(ctx)
	r, is := m.(*jsonrpc.Response)
	if err != nil || !is {
		return m, err
	}
	received := *r
	received.ID, err = shifted(r.ID, -n.first)
	return &received, err
}

// shifted returns an id that is greater by some number. An id of another kind stays.
func shifted(id jsonrpc.ID, by int64) (jsonrpc.ID, error) {
	n, is := id.Raw().(int64)
	if !is {
		return id, nil
	}
	return jsonrpc.MakeID(float64(n + by))
}

// stored is a session that another replica has stored.
type stored struct {
	*record
	first int64 // ids of requests in it are greater
}

// placeOf returns the place of a caller's session in the store of all replicas; nil means it has none.
func (v *server) placeOf(ctx context.Context, key sessionKey) *sessions.Place {
	if key.isShared() || !v.shares || key.kinds&following != 0 {
		return nil
	}
	of := []any{v.url, v.transport.host, v.transport.header, v.settings.Revision, key.session, key.kinds}
	if v.settings.OAuth != nil {
		of = append(of, v.settings.OAuth)
	}
	return v.all.Sessions.Place(ctx, key.tenant, v.fleet.Capability, 2*v.idle(), of)
}

// renewal is the time between two renewals of a session in the store.
func (v *server) renewal() time.Duration { return min(time.Minute, v.fleet.SessionTTL/8) }

// recent is the time within which a session that another replica uses was renewed in the store.
func (v *server) recent() time.Duration { return 2 * v.renewal() }

// idle is the time after which an unused session ends: renewals in the store may be behind by one.
func (v *server) idle() time.Duration { return v.fleet.SessionTTL + v.renewal() }

// look returns the session at a place, unless it is o. If there is none, o becomes that of all replicas, as one that
// had a number of uses before; o may be nil. A session that the server has forgotten is deleted.
func (s *session) look(ctx context.Context, place *sessions.Place, o *opened, uses int64) *stored {
	var id string
	var text []byte
	if o != nil {
		if id = o.ID(); id == "" || o.InitializeResult().ProtocolVersion >= modern {
			return nil
		}
		var err error
		if text, err = json.Marshal(record{id, o.InitializeResult()}); err != nil {
			return nil
		}
	}
	other, use, is := place.Enter(ctx, id, text, uses)
	if is {
		o.link.place.Store(place)
	}
	r := new(record)
	if other == nil || json.Unmarshal(other, r) != nil || r.ID == "" || r.Result == nil ||
		r.Result.ProtocolVersion >= modern {
		return nil
	}
	if gone := s.gone.Load(); gone != nil && *gone == r.ID || use >= maxRanges {
		place.End(ctx, r.ID, 0)
		return nil
	}
	return &stored{r, use << rangeBits}
}

// enter opens the session of a key, or continues the one that another replica has opened.
func (v *server) enter(ctx context.Context, key sessionKey, s *session, client *sdk.Client) (*opened, error) {
	place := v.placeOf(ctx, key)
	s.renewed.Store(time.Now().UnixNano())
	if other := s.look(ctx, place, nil, 0); other != nil {
		if o, err := v.resume(ctx, client, place, other); err == nil {
			return o, nil
		}
	}
	l := &link{transport: v.transport, url: v.url}
	cs, err := v.connectBy(ctx, client, true, l)
	if err != nil {
		return nil, err
	}
	o := &opened{cs, l}
	if faster := s.look(context.WithoutCancel(ctx), place, o, 0); faster != nil {
		if other, err := v.resume(ctx, client, place, faster); err == nil {
			v.abandon(o)
			return other, nil
		}
	}
	return o, nil
}

// resume continues a session. Nothing is sent.
func (v *server) resume(ctx context.Context, client *sdk.Client, place *sessions.Place, of *stored) (*opened, error) {
	l := &link{transport: v.transport, url: v.url, of: of.record}
	l.place.Store(place)
	cs, err := client.Connect(ctx, &numbering{v.streamable(l, true), of.first},
		&sdk.ClientSessionOptions{ProtocolVersion: of.Result.ProtocolVersion})
	if err != nil {
		return nil, err
	}
	return &opened{cs, l}, nil
}

// isCurrent reports whether an open session is still that of all replicas. Once in a while it renews it in the store.
func (v *server) isCurrent(ctx context.Context, key sessionKey, s *session, o *opened) bool {
	now, last := time.Now().UnixNano(), s.renewed.Load()
	if v.all.Sessions == nil || !v.shares || now-last < int64(v.renewal()) || !s.renewed.CompareAndSwap(last, now) {
		return true
	}
	// A store that has lost the session has also lost the number of its uses.
	other := s.look(ctx, v.placeOf(ctx, key), o, maxRanges/2+rand.Int64N(maxRanges/4))
	return other == nil || other.ID == o.ID()
}

// forgotten drops a session that the server no longer knows, or whose connection has ended, for all replicas.
func (v *server) forgotten(ctx context.Context, s *session, o *opened) {
	id := o.ID()
	s.gone.Store(&id)
	o.link.place.Swap(nil).End(context.WithoutCancel(ctx), id, 0)
	v.lost(s, o)
}

// end ends a session for all replicas, unless one has used it within idle. It ends here in any case.
func (o *opened) end(idle time.Duration) {
	if o.link.place.Load().End(context.Background(), o.ID(), idle) {
		o.link.place.Store(nil)
	}
	_ = o.Close() // limited by the SDK; a server that does not respond drops the session itself
}
