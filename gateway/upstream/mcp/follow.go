package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/plainjson"
)

// A subscription at a server of an earlier revision belongs to a session, and updates arrive on the stream of its GET.
// It is in the session of the caller's calls, because some servers notify the session of the call that has changed a
// resource. If that session has its stream at another replica, the subscription is in a session of this replica alone.
// Since 2026-07-28, each subscription is a stream of its own.

const (
	followCost    = 2 << 10 // the gateway's memory for a subscription, in bytes
	listenMethod  = "subscriptions/listen"
	updatedMethod = "notifications/resources/updated"
)

// follow is the subscription of a follower.
type follow struct {
	uri string
	of  *questions.Follower
	ctx context.Context // of the requests of the subscription; ends with it
	end context.CancelFunc
}

func newFollow(ctx context.Context, uri string, of *questions.Follower) *follow {
	f := &follow{uri: uri, of: of}
	f.ctx, f.end = context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(of.Context, f.end)
	return f
}

// ended notifies the follower of the end of the subscription, unless the follower itself has ended it.
func (f *follow) ended() {
	f.end()
	if f.of.Context.Err() == nil {
		f.of.Lost()
	}
}

// updatedURI returns the URI of an update; empty means that it has none.
func updatedURI(params json.RawMessage) string {
	var of struct {
		URI string `json:"uri"`
	}
	_ = json.Unmarshal(params, &of) // an update of another form is dropped
	return of.URI
}

// updated notifies the follower of an update of the resource, or of a part of it (2025-11-25, Resources,
// "Subscriptions"). Other updates are dropped.
func (f *follow) updated(uri string) {
	if uri == f.uri || strings.HasPrefix(uri, strings.TrimSuffix(f.uri, "/")+"/") {
		f.of.Updated()
	}
}

// subscribed returns the result of a subscription.
func subscribed() *toolResult { return &toolResult{json: []byte("{}")} }

// Rejections of subscriptions.
var (
	errNoUpdates = upstream.Rejected(call.Unimplemented, "the MCP server sends no updates of resources")
	errNoStream  = upstream.Rejected(call.Unavailable, "the MCP server has no stream for updates of resources")
	errFull      = status.Error(refusedSession, call.NotSent)
)

// subscribe subscribes to a resource in the session of a call, like attempt. A follower continues the session after the
// call. Without one, the subscription ends with the call.
func (v *server) subscribe(ctx context.Context, of attempted, in *joined) (_ *toolResult, lost bool, _ error) {
	about := in.open.InitializeResult()
	var follower *questions.Follower
	if of.asks.of != nil {
		follower = of.asks.of.Follower
	}
	switch c := about.Capabilities; {
	case c == nil || c.Resources == nil || !c.Resources.Subscribe:
		return nil, false, errNoUpdates
	case about.ProtocolVersion >= modern:
		if follower == nil {
			tried, cancel := context.WithCancel(ctx)
			defer cancel()
			nothing := func() {}
			follower = &questions.Follower{Context: tried, Updated: nothing, Lost: nothing}
		}
		return v.openFollow(ctx, of, in, newFollow(ctx, of.op.uri, follower))
	case in.open.ID() == "":
		return nil, false, errNoUpdates
	}
	select {
	case in.session.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, false, upstream.Ended(ctx.Err())
	}
	defer func() { <-in.session.turn }()
	if follower != nil {
		return v.enterFollow(ctx, of, in, newFollow(ctx, of.op.uri, follower))
	}
	result, lost, err := v.request(ctx, of, *in)
	if err == nil {
		in.open.release(ctx, of.op.uri, true)
	}
	return result, lost, err
}

// enterFollow subscribes in a session. The caller must hold its turn.
func (v *server) enterFollow(ctx context.Context, of attempted, in *joined, f *follow) (_ *toolResult, lost bool,
	_ error) {
	s, o := in.session, in.open
	release, ok := v.chargedFollow(s, user{of.tenant, of.user})
	if !ok {
		f.end()
		return nil, false, errFull
	}
	l := &o.link.listener
	undo := func() {
		f.end()
		l.remove(f, o.link.place.Load() != nil)
		release()
	}
	result, lost, err := v.request(ctx, of, *in)
	if err != nil {
		undo()
		return nil, lost, err
	}
	if !l.awaits(ctx, l.join(ctx, v, s, o, func() { l.follows[f] = struct{}{} })) {
		undo()
		o.release(ctx, of.op.uri, false)
		again := !of.asks.alone
		of.asks.alone = true
		return nil, again, errNoStream
	}
	leave := in.release
	if !l.keep(f, func() {
		defer leave()
		defer release()
		<-f.ctx.Done()
		if f.of.Context.Err() != nil {
			v.leaveFollow(s, o, f)
		}
		l.remove(f, o.link.place.Load() != nil)
		f.ended()
	}) {
		undo()
		return nil, false, errNoStream
	}
	in.release = func() {}
	return result, false, nil
}

// leaveFollow ends the subscription of a follower.
func (v *server) leaveFollow(s *session, o *opened, f *follow) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), asideTimeout)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return
	}
	o.link.listener.drop(f)
	o.release(ctx, f.uri, f.of.Over.Load())
}

// release ends a subscription that no follower of the session needs. In a session that replicas share, a stream of the
// client at another replica may need it, unless it is over: it stays until the session ends. To end it with the last
// stream, replicas would need a lease for each follower, and an order of the end of one stream and the start of the
// next; without both, a client that reconnects would lose updates. A server that does not respond ends it with the
// session. The caller must hold the session's turn.
func (o *opened) release(ctx context.Context, uri string, over bool) {
	if o.link.listener.has(uri) || o.link.place.Load() != nil && !over {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, asideTimeout)
	defer cancel()
	_ = o.Unsubscribe(ctx, &sdk.UnsubscribeParams{URI: uri})
}

// openFollow subscribes with a stream (2026-07-28, Subscriptions).
func (v *server) openFollow(ctx context.Context, of attempted, in *joined, f *follow) (_ *toolResult, lost bool,
	_ error) {
	release, ok := v.chargedStream(user{of.tenant, of.user})
	if !ok {
		f.end()
		return nil, false, errFull
	}
	accepted, leave := make(chan error, 1), in.release
	stream := &followStream{follow: f, accepted: accepted}
	l := &in.open.link.listener
	if !l.keep(f, func() {
		defer leave()
		defer release()
		err := stream.read(v, in.open)
		l.drop(f)
		if stream.isOpen {
			f.ended()
			return
		}
		f.end()
		accepted <- err
	}) {
		f.end()
		release()
		return nil, false, errNoStream
	}
	in.release = func() {}
	select {
	case err := <-accepted:
		if err != nil {
			return nil, false, err
		}
		return subscribed(), false, nil
	case <-ctx.Done():
		f.end()
		return nil, false, upstream.Ended(ctx.Err())
	}
}

// followStream is the stream of a subscription.
type followStream struct {
	*follow
	accepted chan<- error // receives nil with the server's acknowledgment
	isOpen   bool
}

// read reads the stream to its end. The error is a gRPC status.
func (s *followStream) read(v *server, o *opened) error {
	body, err := plainjson.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": listenMethod,
		"params": map[string]any{
			"_meta": map[string]any{sdk.MetaKeyProtocolVersion: o.InitializeResult().ProtocolVersion,
				sdk.MetaKeyClientInfo: v.implementation(), sdk.MetaKeyClientCapabilities: struct{}{}},
			"notifications": sdk.NotificationSubscriptions{ResourceSubscriptions: []string{s.uri}}}})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(s.ctx, http.MethodPost, v.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", o.InitializeResult().ProtocolVersion)
	r.Header.Set("Mcp-Method", listenMethod)
	t, pace := v.transport, &paced{newPace(), v.transport.updates, s.ctx}
	if err = t.prepare(r, head{Method: listenMethod}); err != nil {
		return errNoStream
	}
	resp, err := t.roundTrip(r)
	if err != nil {
		return errNoStream
	}
	defer func() { _ = resp.Body.Close() }()
	if !isGood(resp) || !isEvents(resp) {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a partial text has no error
		if err = s.heard(t, r, text); err == nil {
			err = errNoStream
		}
		return err
	}
	b := newEvents(t, r, resp, "")
	b.most, b.pace, b.heard = maxNotice, pace, s
	for err == nil {
		_, err = b.next()
	}
	if status.InfoOf(err) == nil {
		err = errNoStream
	}
	return err
}

// heard implements hearer.
func (s *followStream) heard(_ *transport, _ *http.Request, data []byte) error {
	m, err := parse(data)
	switch {
	case err != nil:
		return err
	case m.Method == nil && m.Error != nil && (m.Error.Code == resourceUnknown ||
		m.Error.Code == jsonrpc.CodeInvalidParams):
		return upstream.Rejected(call.NotFound, "the MCP server does not have the resource")
	case m.Method == nil:
		return errors.New("the subscription has ended")
	case *m.Method == "notifications/subscriptions/acknowledged" && !s.isOpen:
		var p sdk.SubscriptionsAcknowledgedParams
		if json.Unmarshal(m.Params, &p) != nil || len(p.Notifications.ResourceSubscriptions) == 0 {
			return errNoUpdates
		}
		s.isOpen = true
		s.accepted <- nil
	case *m.Method == updatedMethod && s.isOpen:
		s.updated(updatedURI(m.Params))
	}
	return nil
}
