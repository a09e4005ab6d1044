package mcp

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/lib/plainjson"
)

// sessionHeader is the id of a session, in revisions that have sessions.
const sessionHeader = "Mcp-Session-Id"

// session is the content of a session's id: what its client declared at initialize. Replicas do not store it.
type session struct {
	shows
	ID string `json:"i"` // random, so that sessions are distinct
}

// begin creates a session for the client of an initialize. Without keys there are no sessions.
func (h *Handler) begin(w http.ResponseWriter, r *http.Request, m *message) {
	seals := h.sealsFor(r.Context(), r)
	if !seals.on() {
		return
	}
	w.Header().Set(sessionHeader, seals.seal(sealedSession, session{shows: m.meta.shows, ID: rand.Text()}))
}

// resume returns the session of a request. A session of another caller, or a forged one, is unknown.
func (h *Handler) resume(r *http.Request) (session, error) {
	id := header.First(r.Header, sessionHeader)
	if id == "" {
		return session{}, nil
	}
	return h.opened(r, id)
}

// opened returns the session with an id.
func (h *Handler) opened(r *http.Request, id string) (s session, f error) {
	seals := h.sealsFor(r.Context(), r)
	if seals.on() && !seals.open(sealedSession, id, &s) {
		return s, refused(http.StatusNotFound, jsonrpc.CodeInvalidRequest, "MCP_SESSION_UNKNOWN",
			"there is no such session of this caller; start another one with initialize")
	}
	return s, nil
}

// Uses of sealed texts, which are not interchangeable.
const (
	sealedSession  = "session"
	sealedState    = "state"
	sealedQuestion = "question"
	sealedAnswer   = "answer"
)

// maxSealed is the maximum length of a sealed text, in bytes.
const maxSealed = 2 << 10

// maxLong is the maximum length of a sealed state, which may contain that of a server, and of an answer, in bytes.
const maxLong = 512 << 10

// seals encrypts data that clients keep for the gateway, so that every replica can read it and clients cannot modify
// it. It is bound to its use and to the caller.
type seals struct {
	sealer *aead.Sealer
	caller string
}

// sealsFor returns the seals of a request's caller. Without keys, which replicas share, nothing is sealed or opened.
func (h *Handler) sealsFor(ctx context.Context, r *http.Request) seals {
	s := seals{sealer: &aead.Sealer{}}
	if h.cfg.Keys == nil {
		return s
	}
	s.caller = h.cfg.Caller(r)
	if sealer, err := aead.New(h.cfg.Keys(ctx)); err == nil {
		s.sealer = sealer
	}
	return s
}

func (s seals) on() bool { return s.sealer != nil && s.sealer.On() }

func (s seals) bond(use string) []byte { return []byte(use + "\n" + s.caller) }

// seal returns v as a sealed text.
func (s seals) seal(use string, v any) string {
	text, _ := plainjson.Marshal(v) // structs of strings, numbers and valid JSON can always be encoded
	return base64.RawURLEncoding.EncodeToString(s.sealer.Seal(s.bond(use), text))
}

// open decodes the result of seal for the same caller and use.
func (s seals) open(use, text string, v any) bool {
	if len(text) > maxLong || len(text) > maxSealed && use != sealedState && use != sealedAnswer {
		return false
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	if data, err = s.sealer.Open(s.bond(use), data); err != nil {
		return false
	}
	return json.Unmarshal(data, v) == nil
}
