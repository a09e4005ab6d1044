package mcp

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// metadataPath is the path of the metadata with the issuers of tokens (RFC 9728 §3.1); the path of the resource is
// appended.
const metadataPath = "/.well-known/oauth-protected-resource"

// protectedResource is the metadata of the server as a resource of OAuth (RFC 9728 §2).
type protectedResource struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Methods  []string `json:"bearer_methods_supported"`
	Scopes   []string `json:"scopes_supported,omitempty"`
	Name     string   `json:"resource_name"`
}

// Match implements web.Door. The metadata is only served if there are issuers.
func (h *Handler) Match(r *http.Request) bool {
	if isMetadata(r.URL.Path) {
		return len(h.settings.Load().Issuers) > 0
	}
	return isResource(r.URL.Path)
}

// isResource reports whether a path is that of MCP, or of a toolset. It need not exist.
func isResource(path string) bool { return path == Path || toolsetIn(path) != "" }

// isMetadata reports whether a path is that of the metadata of a resource.
func isMetadata(path string) bool {
	resource, is := strings.CutPrefix(path, metadataPath)
	return is && (resource == "" || isResource(resource))
}

// metadata serves the metadata of the server, which is public.
func (h *Handler) metadata(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	resource := cmp.Or(strings.TrimPrefix(r.URL.Path, metadataPath), Path)
	of, server := h.settings.Load(), protectedResource{Resource: h.Base(r) + resource, Methods: []string{"header"},
		Name: "capgate"}
	server.Servers = of.Issuers
	if h.cfg.Scopes != nil {
		server.Scopes = h.cfg.Scopes(of.Issuers)
	}
	text, _ := json.Marshal(server) // strings can always be encoded
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Access-Control-Allow-Origin", "*") // for clients in browsers; the metadata is public
	_, _ = w.Write(append(text, '\n'))                 // fails only if the client has disconnected
}

// Base returns the URL of the gateway for clients: the configured one, or that of the request.
func (h *Handler) Base(r *http.Request) string {
	if of := h.settings.Load().PublicURL; of != "" {
		return of
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// checkScope returns an error if the caller lacks the scope of a message. The filters of the call would detect that
// too late for the required status 403 (2025-11-25, Authorization, "Scope Challenge Handling").
func (h *Handler) checkScope(r *http.Request, m *message) error {
	switch {
	case strings.HasSuffix(m.method, "/list") && m.isServed(), m.method == "subscriptions/listen",
		m.method == toolsCall && m.tool == searchTools && h.searches(r):
		return h.cfg.Lists(r)
	case m.method == toolsCall, m.method == "logging/setLevel", isFeatureCall(m.method),
		m.method == subscribeMethod, m.method == unsubscribeMethod,
		slices.Contains(taskMethods(), m.method):
		return h.cfg.Invokes(r)
	}
	return nil
}

// challenge adds the URL of the metadata to a WWW-Authenticate header (RFC 9728 §5.1).
func (h *Handler) challenge(r *http.Request, challenge string) string {
	if len(h.settings.Load().Issuers) == 0 {
		return challenge
	}
	metadata := ` resource_metadata="` + h.Base(r) + metadataPath + r.URL.Path + `"`
	if scheme, params, more := strings.Cut(challenge, " "); more {
		return scheme + metadata + ", " + params
	}
	return challenge + metadata
}
