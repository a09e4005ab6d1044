package mcp

import (
	"crypto/rand"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// sessionHeader is the id of a session, in revisions that have sessions.
const sessionHeader = "Mcp-Session-Id"

// session is what the id of a session says: what its client has declared when it began. No replica stores it.
type session struct {
	shows
	ID string `json:"i"` // random, so that two sessions differ
}

// begin gives the client of an initialize a session. Without keys it has none.
func (h *Handler) begin(w http.ResponseWriter, r *http.Request, m *message) {
	seals := h.sealsFor(r.Context(), r)
	if !seals.on() {
		return
	}
	w.Header().Set(sessionHeader, seals.seal(sealedSession, session{shows: m.meta.shows, ID: rand.Text()}))
}

// resume reads the session of a request. A session of another caller, or a forged one, does not exist.
func (h *Handler) resume(r *http.Request) (s session, f error) {
	id := r.Header.Get(sessionHeader)
	if id == "" {
		return s, nil
	}
	seals := h.sealsFor(r.Context(), r)
	if seals.on() && !seals.open(sealedSession, id, &s) {
		return s, refused(http.StatusNotFound, jsonrpc.CodeInvalidRequest, "MCP_SESSION_UNKNOWN",
			"there is no such session of this caller; begin another one with initialize")
	}
	return s, nil
}
