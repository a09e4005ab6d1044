package mcp

import (
	"crypto/rand"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// sessionHeader is the id of a session, in revisions that have sessions.
const sessionHeader = "Mcp-Session-Id"

// session is what the id of a session says: what its client has declared when it began. No replica stores it.
type session struct {
	URLs bool   `json:"u,omitempty"` // the client shows addresses to its user (URL elicitation)
	ID   string `json:"i"`           // random, so that two sessions differ
}

// begin gives the client of an initialize a session. Without keys it has none.
func (h *Handler) begin(w http.ResponseWriter, r *http.Request, m *message) {
	seals := h.sealsFor(r.Context(), r)
	if !seals.on() {
		return
	}
	var init struct {
		Params struct {
			Capabilities sdk.ClientCapabilities `json:"capabilities"`
		} `json:"params"`
	}
	_ = json.Unmarshal(m.body, &init) // the SDK refuses what is malformed
	w.Header().Set(sessionHeader, seals.seal(sealedSession,
		session{URLs: showsURLs(&init.Params.Capabilities), ID: rand.Text()}))
}

// resume reads the session of a request. A session of another caller, or a forged one, does not exist.
func (h *Handler) resume(r *http.Request) (s session, f *refusal) {
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

// showsURLs reports whether a client shows addresses to its user.
func showsURLs(c *sdk.ClientCapabilities) bool {
	return c != nil && c.Elicitation != nil && c.Elicitation.URL != nil
}

// asksUsers reports whether a client says with a request that it shows or asks its user something. What that is, the SDK
// reads, whose decoder costs as much as a call.
func asksUsers(meta sdk.Meta) bool {
	capabilities, _ := meta[sdk.MetaKeyClientCapabilities].(map[string]any)
	return capabilities["elicitation"] != nil
}
