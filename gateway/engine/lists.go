package engine

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictproto"
)

const (
	// pageSize is the page size of requests to engines, and the default page size of callers.
	pageSize = 100
	// maxScanned is the maximum number of an engine's sessions that are searched for a tenant's.
	maxScanned = 20_000
)

// claimSession assigns a session to the tenant, or checks that it belongs to the tenant. A session that was not opened
// through the gateway has no owner and is unknown to all tenants.
func (g *Guard) claimSession(ctx context.Context, p *Call, session string) *call.Refusal {
	if !p.MultiTenant {
		return nil
	}
	known, err := g.cfg.Sessions.Owners(ctx, p.Fleet, []string{session})
	if err != nil {
		return refusedUnavailable
	}
	if known[0] == "" && session == p.Session && !p.Opened { // otherwise the engine has just created it
		if refusal := g.checkUnused(ctx, p); refusal != nil {
			return refusal
		}
	}
	owner, _, err := g.cfg.Sessions.Claim(ctx, p.Fleet, session, p.Tenant)
	switch {
	case err != nil:
		return refusedUnavailable
	case owner != p.Tenant:
		return refusedSession
	}
	return nil
}

// checkUnused checks that the engine has no messages of a session.
func (g *Guard) checkUnused(ctx context.Context, p *Call) *call.Refusal {
	req := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), p.Session)
	req = protowire.AppendVarint(protowire.AppendTag(req, 2, protowire.VarintType), 1)
	answer, err := g.subrequest(ctx, p, clients+"GetHistory", req)
	switch code := status.Code(err); {
	case code == codes.NotFound:
		return nil
	case err != nil:
		return refusedUnasked
	}
	var has bool
	if each(answer, func([]byte) { has = true }) != nil {
		return refusedAnswer
	}
	if has {
		return refusedSession
	}
	return nil
}

// checkOwner checks that a session belongs to the tenant.
func (g *Guard) checkOwner(ctx context.Context, p *Call, session string) *call.Refusal {
	if !p.MultiTenant {
		return nil
	}
	owners, err := g.cfg.Sessions.Owners(ctx, p.Fleet, []string{session})
	switch {
	case err != nil:
		return refusedUnavailable
	case owners[0] != p.Tenant:
		return refusedSession
	}
	return nil
}

// history returns the history of one of the tenant's sessions.
func (g *Guard) history(ctx context.Context, p *Call, path string, msg []byte) ([]byte, error) {
	session, err := methods[path].ReadSession(msg)
	if err != nil {
		return nil, strictproto.Refuse(err, refusedMalformed)
	}
	if len(session) == 0 {
		return nil, refusedSession
	}
	if refusal := g.checkOwner(ctx, p, string(session)); refusal != nil {
		return nil, refusal
	}
	answer, err := g.forward(ctx, path, msg)
	if err != nil || !p.MultiTenant {
		return answer, err
	}
	const fieldOf = 2 // ChatMessage.session_id
	return filter(answer, func(messages [][]byte) ([][]byte, error) {
		var kept [][]byte
		for _, m := range messages {
			if of, err := text(m, &chatMessage, fieldOf); err == nil &&
				(len(of) == 0 || string(of) == string(session)) {
				kept = append(kept, m)
			}
		}
		return kept, nil
	})
}

// sessions lists the tenant's sessions.
func (g *Guard) sessions(ctx context.Context, p *Call, path string, msg []byte) ([]byte, error) {
	numbering, refusal := numberingOf(ctx, p)
	if refusal != nil {
		return nil, refusal
	}
	limit, offset, err := pageOf(msg)
	if err != nil {
		return nil, err
	}
	var answer []byte
	if p.MultiTenant {
		answer, err = g.ownSessions(ctx, p, path, limit, offset)
	} else {
		answer, err = g.forward(ctx, path, msg)
	}
	if err != nil {
		return nil, err
	}
	return filter(answer, func(sessions [][]byte) ([][]byte, error) {
		for i, s := range sessions {
			if sessions[i], refusal = renumberSession(s, p, numbering); refusal != nil {
				return nil, refusal
			}
		}
		return sessions, nil
	})
}

// pageOf reads limit and offset of a ListSessionsRequest.
func pageOf(msg []byte) (limit, offset uint64, err error) {
	err = fields(msg, &listRequest, func(r *strictproto.Reader) {
		if r.Number == 1 {
			limit = r.Varint
		} else {
			offset = r.Varint
		}
	})
	if err != nil || int32(limit) < 0 || int32(offset) < 0 {
		return 0, 0, strictproto.Refuse(err, refusedMalformed)
	}
	return limit, offset, nil
}

// renumberSession returns a session with its mode in the client's numbering.
func renumberSession(session []byte, p *Call, numbering Numbering) ([]byte, *call.Refusal) {
	if numbering == p.Settings.Engines {
		return session, nil
	}
	if s, ok := renumber(session, &sessionInfo, p.Settings.Engines, numbering); ok {
		return s, nil
	}
	return nil, refusedAnswer
}

// ownSessions pages through an engine's sessions and returns the tenant's.
func (g *Guard) ownSessions(ctx context.Context, p *Call, path string, limit, offset uint64) (answer []byte,
	err error) {
	if limit == 0 {
		limit = pageSize
	}
	var first string // of the previous page
	for seen := 0; seen < maxScanned; seen += pageSize {
		page, err := g.page(ctx, p, path, seen)
		if err != nil {
			return nil, err
		}
		if len(page) > 0 && seen > 0 && string(page[0]) == first {
			break // some engines ignore limit and offset
		}
		mine, err := g.filterOwned(ctx, p, page)
		if err != nil {
			return nil, err
		}
		for _, s := range mine {
			if offset > 0 {
				offset--
				continue
			}
			answer = appendMessage(answer, 1, s)
			if limit--; limit == 0 {
				return answer, nil
			}
		}
		if len(page) != pageSize {
			break
		}
		first = string(page[0])
	}
	return answer, nil
}

// page returns a page of an engine's sessions.
func (g *Guard) page(ctx context.Context, p *Call, path string, offset int) (page [][]byte, err error) {
	req := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), pageSize)
	if offset > 0 {
		req = protowire.AppendVarint(protowire.AppendTag(req, 2, protowire.VarintType), uint64(offset))
	}
	p.Sent()
	answer, err := g.subrequest(ctx, p, path, req)
	if err != nil {
		return nil, err
	}
	if each(answer, func(s []byte) { page = append(page, s) }) != nil {
		return nil, refusedAnswer
	}
	return page, nil
}

func (g *Guard) filterOwned(ctx context.Context, p *Call, page [][]byte) (mine [][]byte, err error) {
	if len(page) == 0 {
		return nil, nil
	}
	ids := make([]string, len(page))
	for i, s := range page {
		id, err := text(s, &sessionInfo, 1)
		if err != nil {
			return nil, refusedAnswer
		}
		ids[i] = string(id)
	}
	owners, err := g.cfg.Sessions.Owners(ctx, p.Fleet, ids)
	if err != nil {
		return nil, refusedUnavailable
	}
	for i, s := range page {
		if owners[i] == p.Tenant {
			mine = append(mine, s)
		}
	}
	return mine, nil
}

// filter changes the messages in field 1 of a response, and leaves other fields unchanged.
func filter(answer []byte, change func([][]byte) ([][]byte, error)) ([]byte, error) {
	var messages [][]byte
	var rest []byte
	r := strictproto.Read(answer, &list)
	for r.Next() {
		if r.Number == 1 {
			messages = append(messages, r.Value)
		} else {
			rest = append(rest, r.Field...)
		}
	}
	if r.Err() != nil {
		return nil, refusedAnswer
	}
	changed, err := change(messages)
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, m := range changed {
		out = appendMessage(out, 1, m)
	}
	return append(out, rest...), nil
}

var refusedUnasked = &call.Refusal{Kind: call.Unavailable, Reason: "ENGINE_STATE_UNAVAILABLE", RetryAfter: time.Second,
	Message: "the engine does not report whether it already has this session; the message was not sent"}
