package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/internal/mcpsession"
)

// Since 2026-07-28, a request has the least level of the log messages that its client wants. Before, the client sets it
// for its session, whose state the replicas share.

// level returns the least level of log messages that the client of a call wants; 0 means none.
func (h *Handler) level(i *invocation) questions.Level {
	x := i.exchange
	switch {
	case h.cfg.Questions == nil || !i.results.Relayed || !x.read.mayStream:
		return 0
	case i.stateless:
		return x.read.meta.level
	case h.cfg.Levels == nil || x.session.ID == "":
		return 0
	}
	return questions.LevelOf(h.cfg.Levels.Level(x.r.Context(), h.cfg.Session(x.r, x.session.ID)))
}

// log sends a log message to the client of the call, unless the call has ended.
func (c *conversation) log(_ context.Context, params json.RawMessage) {
	release, err := request.HoldFor(c.i.exchange.r.Context(), noticeCopies*len(params))
	if err != nil {
		return // a log message may be lost
	}
	defer release()
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.over:
	default:
		_ = c.i.exchange.events.send(notification{"2.0", "notifications/message", params})
	}
}

// empty is a result without members.
type empty struct{ sdk.ResultBase }

// setLevel serves logging/setLevel of a session.
//
//nolint:staticcheck // deprecated, and still a part of the protocol
func (h *Handler) setLevel(ctx context.Context, p *sdk.SetLoggingLevelParams) (sdk.Result, error) {
	x := exchangeOf(ctx)
	if questions.LevelOf(string(p.Level)) == 0 {
		return nil, invalidParams("level must be debug, info, notice, warning, error, critical, alert or emergency")
	}
	if h.cfg.Levels == nil || x.session.ID == "" {
		return nil, refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "MCP_SESSION_UNKNOWN",
			"a level is that of a session; start one with initialize, and send its Mcp-Session-Id")
	}
	wait := h.delay(x.r, 0) // all replicas receive it
	if wait > 0 {
		return nil, limitedLevels(wait)
	}
	switch err := h.cfg.Levels.SetLevel(ctx, h.cfg.Session(x.r, x.session.ID), string(p.Level)); {
	case errors.Is(err, mcpsession.ErrFull):
		return nil, limitedLevels(time.Minute)
	case err != nil:
		return nil, unavailable("MCP_LEVEL_LOST", "the level of log messages could not be stored")
	}
	return &empty{}, nil
}

// limitedLevels returns the error of a tenant that sets too many levels.
func limitedLevels(wait time.Duration) error {
	return limited("MCP_LEVELS_LIMITED", wait, "the tenant sets levels of log messages too often, or too many "+
		"sessions of this user, or of its tenant, have one")
}
