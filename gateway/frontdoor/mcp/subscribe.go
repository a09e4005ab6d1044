package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/mcpsession"
)

// Before 2026-07-28, a client subscribes its session to resources, at any replica, and gets updates on the stream of a
// GET. The replicas share the subscriptions, and the one with the stream subscribes at the servers. Since then, the
// request that opens a stream has the subscriptions of that stream.

const (
	subscribeMethod   = manifest.Subscribe
	unsubscribeMethod = "resources/unsubscribe"

	subscriptionsLimited = "MCP_SUBSCRIPTIONS_LIMITED" // reason of an error
)

// subscribes reports whether clients can subscribe to resources.
func (c *Config) subscribes() bool { return c.Features != nil && c.Questions != nil && c.Levels != nil }

// subscribe serves resources/subscribe of a session. The server must accept a new subscription first.
func (h *Handler) subscribe(ctx context.Context, uri string) (sdk.Result, error) {
	x := exchangeOf(ctx)
	key, err := h.subscriber(x, uri)
	if err != nil {
		return nil, err
	}
	problem.Called(ctx)
	if all, err := h.cfg.Levels.URIs(ctx, key); err != nil || !slices.Contains(all, uri) {
		if _, err = h.subscribeTo(ctx, x, uri, nil); err != nil {
			return nil, err
		}
	}
	err = h.cfg.Levels.Subscribe(ctx, key, uri)
	if errors.Is(err, mcpsession.ErrFull) {
		if all, failed := h.cfg.Levels.URIs(ctx, key); failed == nil && tooMany(append(all, uri)) {
			return nil, limited(subscriptionsLimited, 0, "a session has at most 64 subscriptions to resources, "+
				"with 32 KiB of URIs; unsubscribe from one first")
		}
	}
	return stored(err)
}

// unsubscribe serves resources/unsubscribe of a session. The replica with its stream unsubscribes at the server.
func (h *Handler) unsubscribe(ctx context.Context, uri string) (sdk.Result, error) {
	key, err := h.subscriber(exchangeOf(ctx), uri)
	if err != nil {
		return nil, err
	}
	return stored(h.cfg.Levels.Unsubscribe(ctx, key, uri))
}

// subscriber returns the session of a request that changes its subscriptions. All replicas receive the change.
func (h *Handler) subscriber(x *exchange, uri string) (key mcpsession.Key, _ error) {
	if uri == "" {
		return key, invalidParams("uri is missing")
	}
	if !h.cfg.subscribes() || x.session.ID == "" {
		return key, refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "MCP_SESSION_UNKNOWN",
			"a subscription is that of a session; start one with initialize, and send its Mcp-Session-Id")
	}
	if wait := h.delay(x.r, 0); wait > 0 {
		return key, limited(subscriptionsLimited, wait,
			"the tenant changes levels and subscriptions of sessions too often")
	}
	return h.cfg.Session(x.r, x.session.ID), nil
}

// stored returns the result of a change of subscriptions.
func stored(err error) (sdk.Result, error) {
	switch {
	case errors.Is(err, mcpsession.ErrFull):
		return nil, limited(subscriptionsLimited, time.Minute, "too many sessions of this user, or of its tenant, "+
			"have subscriptions to resources; they end two hours after the last stream of a session")
	case err != nil:
		return nil, unavailable("MCP_SUBSCRIPTION_LOST", "the subscription could not be stored, or removed")
	}
	return &empty{}, nil
}

// errNoAnswer is the answer to questions of a server about a subscription.
var errNoAnswer = &questions.Refused{Code: jsonrpc.CodeInvalidRequest, Message: "a subscription answers no questions"}

// unapproved is the call of a subscription. The gateway repeats it, and cannot wait for an approval each time.
//
//nolint:gochecknoglobals // a constant
var unapproved = request.Call{Feature: true, Asking: call.Asking{Impossible: true}}

// subscribeTo subscribes to a resource at its server, and returns its capability. If the follower is nil, it finds out
// whether the server accepts that. The call passes the gateway's filters like any other.
func (h *Handler) subscribeTo(ctx context.Context, x *exchange, uri string, f *questions.Follower) (capability string,
	_ error) {
	offers, err := h.cfg.Features.Resources(ctx, true)
	if err != nil {
		return "", err
	}
	u := newURIs(offers)
	capability, own, ok := u.resolve(uri)
	if !ok || !u.reads(capability) || manifest.CheckURI(own) != nil || !h.cfg.Features.Has(ctx, capability) {
		return "", u.unresolved(x, uri)
	}
	args, err := plainjson.Marshal(map[string]string{"uri": own})
	if err != nil {
		return "", unknownResource(x, uri)
	}
	i, err := h.newFeature(x, capability, manifest.Subscribe, args)
	if err != nil {
		return "", err
	}
	i.declareApps()
	of := &questions.Call{Follower: f, Ask: func(context.Context, *questions.Question) (json.RawMessage, error) {
		return nil, errNoAnswer
	}}
	if !i.stateless {
		of.Kinds = x.kinds() // so that it has the session of the caller's calls
	}
	id, remove := h.cfg.Questions.Add(of)
	defer remove()
	i.fields = append(i.fields[:len(i.fields):len(i.fields)], relay.Field{Name: questions.Metadata, Value: id})
	if _, err = h.unary(request.WithCall(ctx, unapproved), i); isAbsent(err) {
		return "", unknownResource(x, uri)
	}
	return capability, err
}
