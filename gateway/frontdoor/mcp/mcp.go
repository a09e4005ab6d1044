package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/toolschema"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Path is where MCP is served.
const Path = "/mcp"

// Config is what a Handler is made of. Conn, Unary, Catalog, Authenticate, Invokes, and Lists are required.
type Config struct {
	Conn grpc.ClientConnInterface // to the gateway, for calls that are answered piece by piece
	// Unary makes a call of one message each way for the caller that ctx is of. msg has relay.Headroom before the
	// message.
	Unary   func(ctx context.Context, q *relay.Request, msg []byte, r *relay.Response)
	Catalog Catalog
	// Absent reports whether the tools of a capability are known, a tool is not among them, and no rule of the caller
	// of ctx names it. It answers from memory. nil means calls find out.
	Absent func(ctx context.Context, capability, tool string) bool
	// Authenticate returns why the caller of a request is rejected, as a gRPC status; nil means it is not.
	Authenticate func(*http.Request) error
	// Invokes and Lists return why the caller of a request lacks the scope to call tools, or to list them, as a gRPC
	// status; nil means it has it.
	Invokes, Lists func(*http.Request) error
	// Scopes returns the scopes of this server that clients may ask each of the issuers for; nil means none are known.
	Scopes  func(issuers []string) []string
	Version string // of the program
	// Keys returns the keys that replicas share; the first seals. It may wait until ctx ends. nil or none: clients get
	// no session, and no state to bring back.
	Keys   func(ctx context.Context) [][]byte
	Tenant func(*http.Request) string // of the caller of a request
	// Caller identifies the caller of a request; required with Keys.
	Caller func(*http.Request) string
	// Cancel has the other replicas call Cancelled with a request; nil means no other one. It may wait until ctx
	// ends.
	Cancel  func(ctx context.Context, request string)
	Tasks   Tasks         // calls that wait for a person, as tasks; nil means none
	MaxBody int64         // of a request, in bytes; default 4 MiB
	Stall   time.Duration // how long a client may send or read nothing while it should; default 1 min
	Beat    time.Duration // how often a client hears of a request that takes longer; default 10 s
}

const (
	defaultMaxBody      = 4 << 20
	defaultApprovalWait = 45 * time.Second
	defaultBeat         = 10 * time.Second
)

// Settings of a Handler may change while it serves. The zero value works.
type Settings struct {
	Names *Names // nil means the prefix of each tool is the capability's id
	// ApprovalWait is how long a call waits for a person's answer whose client cannot show the page of the approval;
	// default 45 s: clients give a call 60 s.
	ApprovalWait time.Duration
	// at which clients reach the gateway, without a final slash; empty means that of their requests
	PublicURL string
	// Search are the tenants whose callers get tools to search and call others, in place of all; "*": all tenants.
	Search  []string
	Issuers []string // URLs of the issuers whose tokens are credentials; none: clients are not told of any
}

// Catalog is the tools of callers.
type Catalog interface {
	// Tools calls visit with the tools of each capability that the caller of ctx may use, from the id from on, in the
	// order of ids. It ends when visit returns false. An error is a gRPC status.
	Tools(ctx context.Context, from string, visit func(capability string, tools []Tool) bool) error
	// Watch calls changed at its begin, and each time that the tools of the caller of ctx have changed. It returns nil
	// when ctx or the caller's credential ends, or the gateway stops. An error is changed's, or a gRPC status.
	Watch(ctx context.Context, changed func() error) error
	View
	// Known reports whether a capability is known to have a tool, for whichever callers. It answers from memory.
	Known(capability, tool string) bool
	// Schema returns the JSON Schema of the arguments of a tool; nil means the caller of ctx does not see its
	// capability, or it is unknown. It answers from memory.
	Schema(ctx context.Context, capability, tool string) []byte
	// Results returns of what form the results of a tool are. It answers from memory.
	Results(capability, tool string) Results
}

// Tool is a tool that a caller may use.
type Tool struct {
	Name, Description string
	InputSchema       []byte             // JSON Schema of the arguments; nil means unknown
	OutputSchema      *toolschema.Schema // of the result; nil means unknown
	Extras            *manifest.Extras   // what its MCP server lists besides; nil means nothing
	Idempotent        bool               // a call may be repeated
	ReadOnly          bool               // calls change nothing
}

// Results are of a form.
type Results struct {
	Relayed  bool               // an MCP server makes the results, which pass unchanged
	Statuses bool               // errors of the tool are statuses
	Listed   bool               // the pieces of a stream are the items of a list
	Schema   *toolschema.Schema // that they are checked against; nil means none
}

// Handler serves MCP. It is safe for concurrent use and has nothing to close.
type Handler struct {
	cfg          Config
	capabilities docpb.CapabilityClient
	files        capgatepb.ArtifactsClient
	approvals    capgatepb.ApprovalsClient
	settings     atomic.Pointer[Settings]
	running      running
	operations   operations
	self         *sdk.Implementation
	about        []byte            // JSON of _meta with self
	direct       sdk.MethodHandler // answers a call that the SDK does not see
	whole        http.Handler      // answers with one JSON object
	events       http.Handler      // answers with events, the last of which is the response
}

// New returns the front door of a gateway.
func New(cfg Config) *Handler {
	cfg.MaxBody, cfg.Stall = cmp.Or(cfg.MaxBody, defaultMaxBody), cmp.Or(cfg.Stall, time.Minute)
	cfg.Beat = cmp.Or(cfg.Beat, defaultBeat)
	h := &Handler{cfg: cfg, capabilities: docpb.NewCapabilityClient(cfg.Conn),
		files: capgatepb.NewArtifactsClient(cfg.Conn), approvals: capgatepb.NewApprovalsClient(cfg.Conn)}
	h.Set(Settings{})
	capabilities := &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}}
	if cfg.Tasks != nil {
		capabilities.AddExtension(tasksExtension, nil)
	}
	h.self = &sdk.Implementation{Name: "capgate", Title: "capgate", Version: cmp.Or(cfg.Version, "dev")}
	h.about, _ = json.Marshal(map[string]any{sdk.MetaKeyServerInfo: h.self}) // texts always have JSON
	h.direct = h.measured(h.callDirect)
	server := sdk.NewServer(h.self, &sdk.ServerOptions{
		Capabilities:              capabilities,
		SupportedProtocolVersions: versions(),
		SetCacheable:              cacheable,
	})
	server.AddReceivingMiddleware(h.measured, h.receive)
	if cfg.Tasks != nil {
		h.addTasks(server)
	}
	serve := func(whole bool) http.Handler {
		return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
			return server
		}, &sdk.StreamableHTTPOptions{
			Stateless: true, JSONResponse: whole, PropagateRequestCancellation: true,
			MaxRequestBodyBytes: -1, DisableLocalhostProtection: true, // the gateway has checked both
		})
	}
	h.whole, h.events = serve(true), serve(false)
	return h
}

// versions returns the revisions that are served, newest first. 2024-11-05 has another transport.
func versions() []string { return []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"} }

// statelessVersion is the first revision without sessions.
const statelessVersion = "2026-07-28"

// Set changes the settings, from the next request on.
func (h *Handler) Set(s Settings) {
	s.ApprovalWait = cmp.Or(s.ApprovalWait, defaultApprovalWait)
	if s.Names == nil {
		s.Names = &Names{}
	}
	h.settings.Store(&s)
}

// exchange is a request as the SDK's handlers see it, in their context.
type exchange struct {
	r       *http.Request
	out     http.ResponseWriter // the SDK writes the response to it
	read    *message
	session session
	memory  *memory    // of a call that the SDK does not see; nil means of none
	events  *events    // of the response, which begins with them, or is one JSON object
	alive   *heartbeat // of the events; nil means the client takes none
}

type exchangeKey struct{}

// exchangeOf returns the request that ctx is of.
func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header()["X-Content-Type-Options"] = noSniff
	if r.URL.Path != Path {
		h.metadata(w, r)
		return
	}
	if err := h.cfg.Authenticate(r); err != nil {
		h.refuse(w, r, nil, err)
		return
	}
	out := bodybudget.WriteTimeout(w, h.cfg.Stall)
	defer out.End()
	if opensEvents(r) {
		h.serveEvents(out, r)
		return
	}
	m, refused := h.read(w, r)
	if refused != nil {
		h.refuse(out, r, m, refused)
		return
	}
	if m.batch != nil {
		h.serveBatch(out, r, m)
		return
	}
	h.serve(out, r, m)
}

// serve answers one message.
func (h *Handler) serve(out http.ResponseWriter, r *http.Request, m *message) {
	if m.method == "" {
		h.answered(out, r, m)
		return
	}
	s, refused := h.resume(r)
	if refused != nil && !m.isStateless() {
		h.refuse(out, r, m, refused)
		return
	}
	if refused = h.checkParams(r, m); refused == nil {
		refused = h.checkScope(r, m)
	}
	if refused != nil {
		h.refuse(out, r, m, refused)
		return
	}
	if m.method == "initialize" {
		h.begin(out, r, m)
	}
	serve := h.whole
	if m.streams {
		serve = h.events
	}
	if m.cancels != "" {
		h.cancel(r.Context(), requestKey{s.ID, m.cancels})
	}
	h.dispatch(serve, out, r, m, s)
}

// dispatch has the SDK answer a message, or answers it as the SDK would. A client that takes events and reads none of
// them for too long ends its request.
func (h *Handler) dispatch(sdk http.Handler, out http.ResponseWriter, r *http.Request, m *message, s session) {
	var key requestKey
	if s.ID != "" {
		key = requestKey{s.ID, string(m.id)}
	}
	ctx, leave := h.running.begin(r.Context(), key)
	defer leave()
	x := &exchange{r: r.WithContext(ctx), out: out, read: m, session: s, events: eventsTo(out)}
	if m.mayStream {
		x.alive = keepAlive(x.events, h.cfg.Beat, leave)
		defer x.alive.stop()
	}
	ctx = context.WithValue(ctx, exchangeKey{}, x)
	if m.call != nil {
		h.serveDirect(ctx, out, x)
		return
	}
	h.serveSDK(ctx, sdk, x)
}

// receive returns the SDK's middleware that answers the methods of tools.
func (h *Handler) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		// The SDK ends a handler with its request in the newest revision alone.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(exchangeOf(ctx).r.Context(), cancel)()
		var result sdk.Result
		var err error
		switch req := req.(type) {
		case *sdk.ListToolsRequest:
			result, err = h.list(ctx, req)
		case *sdk.CallToolRequest:
			result, err = h.call(ctx, req)
		case *sdk.SubscriptionsListenRequest:
			result, err = h.listen(ctx, req)
		default:
			return next(ctx, method, req)
		}
		return encoded(ctx, result, err)
	}
}
