package rest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/files"
	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/unary"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/accept"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Config configures the front door. The zero value is valid.
type Config struct {
	// MaxBody is the maximum size of a request's body in bytes; default 16 MiB. Larger ones are rejected with 413.
	MaxBody int64
	// http makes a tool's own error a 422 with a problem document; result leaves it in the response, with 200. A
	// request may choose with Prefer: errors=http or errors=result.
	ToolErrors ToolErrors `yaml:"tool_errors" enum:"result,http" default:"result"`
	// EventSource reports whether a tool may be called with GET. It must not block. If nil, no tool may.
	EventSource func(capability, tool string) bool
	Beat        time.Duration // interval of heartbeats on idle streams; default 15 s
	// Stall is the time for which a client may send nothing of a body, or read nothing of a stream; default 1 min.
	Stall time.Duration
	// Owner returns the tenant, or the network of a client without one, to which the document of a request is charged.
	// If nil, all share one account.
	Owner func(*http.Request) string
	// Unary makes the tool calls that bypass the mux; nil means none do.
	Unary unary.Make
	// Features provides the prompts and resources of MCP servers; nil means none.
	Features Features
	// Files limits files.
	Files      files.Config
	Page       http.Handler // the page /docs and its files below /docs/assets/; optional
	Extensions []Extension  // additional routes
}

// ToolErrors is the form in which a tool's own error is returned.
type ToolErrors uint8

// Values of ToolErrors.
const (
	ResultErrors ToolErrors = iota // 200, with the error in the body
	HTTPErrors                     // 422 and problem+json
)

// defaultMaxBody is the maximum message size of Selu's orchestrator.
const defaultMaxBody = 16 << 20

func (c Config) withDefaults() Config {
	if c.MaxBody <= 0 {
		c.MaxBody = defaultMaxBody
	}
	if c.EventSource == nil {
		c.EventSource = func(string, string) bool { return false }
	}
	if c.Owner == nil {
		c.Owner = func(*http.Request) string { return "" }
	}
	c.Beat, c.Stall = cmp.Or(c.Beat, 15*time.Second), cmp.Or(c.Stall, time.Minute)
	return c
}

// Handler serves the JSON API. It is safe for concurrent use and need not be closed.
type Handler struct {
	mux          *runtime.ServeMux
	cfg          Config
	capabilities docpb.CapabilityClient
	needed       []string // path parameters that must not be empty
	files        *files.Files
}

// New returns a Handler that makes its calls over conn.
func New(conn grpc.ClientConnInterface, cfg Config) (*Handler, error) {
	conn = markingConn{conn}
	h := &Handler{cfg: cfg.withDefaults(), needed: []string{"capability_id", "tool_name"}}
	h.mux = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, new(marshaler)),
		runtime.WithMiddlewares(h.prepare),
		runtime.WithErrorHandler(h.callFailed),
		runtime.WithRoutingErrorHandler(h.noRoute),
		runtime.WithIncomingHeaderMatcher(forwardHeader),
		runtime.WithOutgoingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithForwardResponseOption(label),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllCharacters), // %3A does not start a custom verb
		runtime.WithDisablePathLengthFallback(),                         // curl -d sends JSON with this type
		runtime.WithWriteContentLength(),
	)
	if err := capgatepb.RegisterCatalogHandlerClient(context.Background(), h.mux,
		capgatepb.NewCatalogClient(strippingConn{conn})); err != nil {
		return nil, fmt.Errorf("register the routes of capgate.v1.Catalog: %w", err)
	}
	if err := capgatepb.RegisterOwnCallsHandlerClient(context.Background(), h.mux,
		capgatepb.NewOwnCallsClient(strippingConn{conn})); err != nil {
		return nil, fmt.Errorf("register the routes of capgate.v1.OwnCalls: %w", err)
	}
	if err := capgatepb.RegisterArtifactsHandlerClient(context.Background(), h.mux,
		capgatepb.NewArtifactsClient(strippingConn{conn})); err != nil {
		return nil, fmt.Errorf("register the routes of capgate.v1.Artifacts: %w", err)
	}
	if err := capgatepb.RegisterTenantsHandlerClient(context.Background(), h.mux,
		capgatepb.NewTenantsClient(strippingConn{conn})); err != nil {
		return nil, fmt.Errorf("register the routes of capgate.v1.Tenants: %w", err)
	}
	page := problem.Page()
	if err := h.mux.HandlePath(http.MethodGet, problem.Path,
		func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
			page.ServeHTTP(bodybudget.WriteTimeout(w, h.cfg.Stall), r)
		}); err != nil {
		return nil, fmt.Errorf("register the page of errors: %w", err)
	}
	if err := h.routeCalls(conn); err != nil {
		return nil, fmt.Errorf("register the routes of capgate.v1.Gateway: %w", err)
	}
	for _, add := range h.cfg.Extensions {
		if err := add(&Routes{Mux: h.mux, Conn: conn, h: h}); err != nil {
			return nil, fmt.Errorf("routes of an extension: %w", err)
		}
	}
	if err := h.routeFeatures(); err != nil {
		return nil, fmt.Errorf("register the routes of features: %w", err)
	}
	if err := h.routeDocuments(conn); err != nil {
		return nil, fmt.Errorf("routes of documents: %w", err)
	}
	if err := h.routeFiles(conn); err != nil {
		return nil, fmt.Errorf("register the routes of files: %w", err)
	}
	return h, h.routeApprovals(conn)
}

// Match implements web.Door. Requests that match no other door belong to the JSON API.
func (*Handler) Match(*http.Request) bool { return true }

// Protocol implements web.Door.
func (*Handler) Protocol(*http.Request) call.Protocol { return call.JSON }

// Headers implements web.Door.
func (*Handler) Headers() header.Door { return header.Door{} }

// Timeout implements web.Door.
func (*Handler) Timeout(r *http.Request) (time.Duration, bool) {
	timeout, err := header.Timeout(r.Header)
	return timeout, err == nil && timeout > 0
}

var nosniff = []string{"nosniff"} //nolint:gochecknoglobals // a constant, of many answers

// ServeHTTP serves a request, which must have an id (problem.WithRequestID).
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header()["X-Content-Type-Options"] = nosniff
	c := &compressed{ResponseWriter: w, coding: codingWanted(r.Header), head: r.Method == http.MethodHead}
	defer c.end()
	if r.URL.Path == "/" && leadsBrowser(c, r) {
		return
	}
	switch r.Method {
	case http.MethodOptions:
		h.options(c, r)
	case http.MethodHead:
		h.mux.ServeHTTP(c, h.asGET(r))
	default:
		if !h.direct(c, r) {
			h.mux.ServeHTTP(c, r)
		}
	}
}

// leadsBrowser redirects a browser from the root to the page of its tools. Other clients get the problem of an unknown
// path.
func leadsBrowser(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Add("Vary", "Accept")
	if r.Method != http.MethodGet && r.Method != http.MethodHead ||
		!accept.Named(r.Header, "text/html") {
		return false
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, "/docs", http.StatusSeeOther)
	return true
}

// options responds with the methods of a path.
func (h *Handler) options(w http.ResponseWriter, r *http.Request) {
	methods := h.allowed(r)
	if len(methods) == 0 {
		WriteProblem(w, r, noSuchPath())
		return
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	w.WriteHeader(http.StatusNoContent)
}
