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
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/frontdoor/unary"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/tokenbucket"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/mcpsession"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/internal/toolset"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Path is the path of MCP. A toolset is below it.
const Path = "/mcp"

// Config configures a Handler. Conn, Unary, Catalog, Authenticate, Invokes, and Lists are required.
type Config struct {
	Conn    grpc.ClientConnInterface // connection to the gateway, for streamed calls
	Unary   unary.Make               // makes the calls of tools
	Catalog Catalog
	// Features returns the prompts and resources of MCP servers; nil means none.
	Features Features
	// Absent reports, from memory, whether the tools of a capability are known, a tool is not among them, and no rule
	// of the caller of ctx names it. If nil, the call itself detects that.
	Absent func(ctx context.Context, capability, tool string) bool
	// Authenticate returns the rejection of a request's caller as a gRPC status, or nil.
	Authenticate func(*http.Request) error
	// Invokes and Lists return an error, as a gRPC status, if the caller of a request lacks the scope to call or to
	// list tools.
	Invokes, Lists func(*http.Request) error
	// Scopes returns the scopes of this server that clients may request from each of the issuers; optional.
	Scopes  func(issuers []string) []string
	Version string // of the program
	// Keys returns the keys of aead.KeyBytes that the replicas share; the first one seals. It may wait until ctx ends.
	// Without keys, clients get no session and no state.
	Keys   func(ctx context.Context) [][]byte
	Tenant func(*http.Request) string         // returns the tenant of a request's caller
	Member func(*http.Request) toolset.Caller // returns a request's caller as one of toolsets; optional
	// Outlive makes the response to a request outlive its handler: it then lasts until end is called, with an error if
	// it is incomplete. gone is called if the client disconnects before, and does not block. A nil end means that the
	// handler has to wait. Optional.
	Outlive func(r *http.Request, gone func()) (end func(aborted error))
	Unix    func(*http.Request) bool // reports whether a client is connected to a Unix domain socket; optional
	// Caller returns the identifier of a request's caller; required with Keys.
	Caller func(*http.Request) string
	// Owner returns the UID of a request's tenant, or the network of a client without one; required with Cancel.
	Owner func(*http.Request) string
	// Cancel makes the other replicas call Cancelled with a request, or with an answer to a question. It may wait until
	// ctx ends. An error means that no replica may have received it. If nil, there are no other replicas.
	Cancel func(ctx context.Context, request string) error
	Tasks  Tasks // calls that wait for approvals, as tasks; optional
	// Questions receives the calls whose clients answer questions of MCP servers, and the followers of resources. If
	// nil, such questions are refused, and clients cannot subscribe to resources.
	Questions *questions.Calls
	// Levels holds the levels of log messages and the subscriptions of sessions. If nil, clients of revisions with
	// sessions have none.
	Levels *mcpsession.Sessions
	// Session returns the key of a session of a request's caller; required with Levels.
	Session func(r *http.Request, id string) mcpsession.Key
	MaxBody int64         // maximum size of a request in bytes; default 4 MiB
	Stall   time.Duration // maximum time for which a client may send or read nothing; default 1 min
	Beat    time.Duration // interval of heartbeats of slow requests; default 10 s
}

const (
	defaultMaxBody      = 4 << 20
	defaultApprovalWait = 45 * time.Second
	defaultBeat         = 10 * time.Second
)

// Settings of a Handler may change while it serves. The zero value is valid.
type Settings struct {
	// How long a call that needs a person's approval waits for the answer, if its client cannot show the page of the
	// approval. It has to be less than the clients' own limit of a call, which is often 60 s.
	ApprovalWait time.Duration `yaml:"approval_wait" above:"0" max:"10m" default:"45s"`
	// Tenants with callers that get search_tools and call_tool in place of all their tools; true or "*": all tenants.
	// Default none.
	Search Tenants `yaml:"search"`

	Names    *Names        // nil means the prefix of each tool is the capability's id
	Toolsets *toolset.Sets // nil means none
	// PublicURL is the URL of the gateway for clients, without a final slash; empty means the host of each request.
	PublicURL string
	Own       *questions.Own // addresses of the gateway, to which questions must not lead
	Issuers   []string       // URLs of the issuers whose tokens are accepted, which clients are sent
}

// Tenants are names of tenants; "*" means all.
type Tenants []string

// Catalog provides the tools of callers.
type Catalog interface {
	// Tools calls visit with the tools of each capability that the caller of ctx may use, starting at the id from, in
	// the order of ids, until visit returns false. The error is a gRPC status.
	Tools(ctx context.Context, from string, visit func(capability string, tools []Tool) bool) error
	// Watch watches the lists of the caller of ctx. notify is called when Over or Next may have a new result, also
	// before Watch returns; it must not block. The error is a gRPC status.
	Watch(ctx context.Context, notify func()) (Watch, error)
	View
	// Undiscovered returns, from memory, the gRPC status of a capability that the caller of ctx sees, and whose tools
	// are not known yet; nil: they are, or it is not visible.
	Undiscovered(ctx context.Context, capability string) error
	// Known reports, from memory, whether a capability is known to have a tool, for any caller.
	Known(capability, tool string) bool
	// Schema returns, from memory, the JSON Schema of a tool's arguments; nil means that it is unknown, or the
	// capability is not visible to the caller of ctx.
	Schema(ctx context.Context, capability, tool string) []byte
	// Hash returns, from memory, the hash of a tool; false means that it is unknown.
	Hash(capability, tool string) (toolschema.Hash, bool)
	// Results returns, from memory, the form of a tool's results.
	Results(capability, tool string) Results
}

// Watch is a watch of the lists of a caller. One goroutine at a time may use it.
type Watch interface {
	// Over reports whether the caller's credential has ended, or the gateway stops.
	Over() bool
	// Next returns the lists that have changed since the last call, without waiting; at first all of them, once they
	// are known. The error is a gRPC status.
	Next() (Lists, error)
	// Stop ends the watch. It must be called once.
	Stop()
}

// Tool is a tool that a caller may use.
type Tool struct {
	Name, Description string
	InputSchema       []byte             // JSON Schema of the arguments; nil means unknown
	OutputSchema      *toolschema.Schema // of the result; nil means unknown
	Extras            *manifest.Extras   // further fields that its MCP server lists; nil means none
	Idempotent        bool               // a call may be repeated
	ReadOnly          bool               // calls have no effects
}

// Results describes the form of a tool's results.
type Results struct {
	Relayed  bool               // an MCP server makes the results, which are forwarded unchanged
	Statuses bool               // tool errors are gRPC statuses
	Listed   bool               // the chunks of a stream are the items of a list
	Schema   *toolschema.Schema // schema against which results are checked; nil means none
}

// Handler serves MCP. It is safe for concurrent use and need not be closed.
type Handler struct {
	cfg          Config
	capabilities docpb.CapabilityClient
	files        capgatepb.ArtifactsClient
	approvals    capgatepb.ApprovalsClient
	settings     atomic.Pointer[Settings]
	running      running
	operations   operations
	waiting      waiting
	memories     memories
	forwards     *tokenbucket.Keyed // of messages to other replicas, by owner, in KiB
	self         *sdk.Implementation
	about        []byte            // JSON of _meta with self
	direct       sdk.MethodHandler // serves a call without the SDK
	whole        http.Handler      // responds with one JSON object
	events       http.Handler      // responds with events, the last of which is the response
}

// New returns a Handler.
func New(cfg Config) *Handler {
	cfg.MaxBody, cfg.Stall = cmp.Or(cfg.MaxBody, defaultMaxBody), cmp.Or(cfg.Stall, time.Minute)
	if cfg.Member == nil {
		cfg.Member = func(r *http.Request) toolset.Caller { return toolset.Caller{Tenant: cfg.Tenant(r)} }
	}
	cfg.Beat, cfg.Catalog = cmp.Or(cfg.Beat, defaultBeat), chosenTools{cfg.Catalog}
	if cfg.Features != nil {
		cfg.Features = chosenFeatures{cfg.Features}
	}
	h := &Handler{cfg: cfg, capabilities: docpb.NewCapabilityClient(cfg.Conn),
		files: capgatepb.NewArtifactsClient(cfg.Conn), approvals: capgatepb.NewApprovalsClient(cfg.Conn),
		forwards: tokenbucket.NewKeyed(maxForwarders, forwardBurst, forwardEvery)}
	h.Set(Settings{})
	capabilities := &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}}
	if cfg.Features != nil {
		capabilities.Prompts = &sdk.PromptCapabilities{ListChanged: true}
		capabilities.Resources = &sdk.ResourceCapabilities{ListChanged: true, Subscribe: cfg.subscribes()}
		capabilities.Completions = &sdk.CompletionCapabilities{}
	}
	if cfg.Questions != nil {
		//nolint:staticcheck // deprecated, and still a part of the protocol
		capabilities.Logging = &sdk.LoggingCapabilities{}
	}
	if cfg.Tasks != nil {
		capabilities.AddExtension(tasksExtension, nil)
	}
	h.self = &sdk.Implementation{Name: "capgate", Title: "capgate", Version: cmp.Or(cfg.Version, "dev")}
	h.about, _ = json.Marshal(map[string]any{sdk.MetaKeyServerInfo: h.self}) // strings can always be encoded
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

// versions returns the supported revisions, newest first. 2024-11-05 has another transport.
func versions() []string { return call.Revisions() }

// statelessVersion is the first revision without sessions.
const statelessVersion = "2026-07-28"

// Set changes the settings for new requests.
func (h *Handler) Set(s Settings) {
	s.ApprovalWait = cmp.Or(s.ApprovalWait, defaultApprovalWait)
	if s.Names == nil {
		s.Names = &Names{}
	}
	h.settings.Store(&s)
}

// exchange is a request in the context of the SDK's handlers.
type exchange struct {
	r       *http.Request
	out     http.ResponseWriter // the SDK writes the response to it
	read    *message
	session session
	memory  *memory    // of a call without the SDK; nil otherwise
	events  *events    // events of the response, unless that is one JSON object
	own     events     // what events points to
	alive   *heartbeat // heartbeats; nil means the client does not accept events, or has the response
	tool    resolved   // of the last name that was resolved
}

type exchangeKey struct{}

// exchangeOf returns the request of ctx.
func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header()["X-Content-Type-Options"] = noSniff
	if isMetadata(r.URL.Path) {
		h.metadata(w, r)
		return
	}
	if err := h.cfg.Authenticate(r); err != nil { // the body, which has the id, is not read
		h.refuse(w, r, nil, err)
		return
	}
	out := bodybudget.WriteTimeout(w, h.cfg.Stall)
	defer out.End()
	r, unknown := h.choose(r)
	if unknown == nil && opensEvents(r) {
		h.serveEvents(out, r)
		return
	}
	m, refused := h.read(w, r)
	if unknown != nil {
		refused = unknown
	}
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

// serve serves one message.
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
		h.cancel(r, requestKey{s.ID, m.cancels})
	}
	h.dispatch(serve, out, r, m, s)
}

// dispatch serves a message, with or without the SDK. If a client accepts events but does not read them for too long,
// its request ends.
func (h *Handler) dispatch(sdk http.Handler, out http.ResponseWriter, r *http.Request, m *message, s session) {
	x := &m.exchange
	r = request.With(r, exchangeKey{}, x)
	x.r, x.out, x.read, x.session = r, out, m, s
	x.events = x.own.to(out)
	var key requestKey
	if s.ID != "" {
		key = requestKey{s.ID, string(m.id)}
	}
	if m.listens != nil {
		h.serveListen(key, x)
		return
	}
	ctx, leave := r.Context(), func() {}
	if m.call == nil || s.ID != "" || !relay.EndsUnread(ctx) { // otherwise its server ends the request
		ctx, leave = h.running.begin(ctx, key)
		x.r = r.WithContext(ctx)
	}
	defer leave()
	if m.mayStream {
		x.alive = m.heartbeat().start(x.events, h.cfg.Beat, leave)
		defer func() { x.alive.stop() }()
	}
	if m.call != nil {
		h.serveDirect(ctx, out, x)
		return
	}
	h.serveSDK(ctx, sdk, x)
}

// receive returns the SDK's middleware that serves the methods of tools.
func (h *Handler) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		// The SDK ends a handler with its request in the newest revision only.
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
		//nolint:staticcheck // deprecated, and still a part of the protocol
		case *sdk.ServerRequest[*sdk.SetLoggingLevelParams]:
			result, err = h.setLevel(ctx, req.Params)
		case *sdk.SubscribeRequest:
			result, err = h.subscribe(ctx, req.Params.URI)
		case *sdk.UnsubscribeRequest:
			result, err = h.unsubscribe(ctx, req.Params.URI)
		default:
			serve := h.features(req)
			if serve == nil {
				return next(ctx, method, req)
			}
			result, err = serve(ctx)
		}
		return encoded(ctx, result, err)
	}
}
