package gateway

import (
	"fmt"
	"slices"
	"strings"

	enginefilter "github.com/capgate/capgate/gateway/engine/filter"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/affinity"
	"github.com/capgate/capgate/gateway/filter/audit"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/filter/authorize"
	"github.com/capgate/capgate/gateway/filter/bandwidth"
	"github.com/capgate/capgate/gateway/filter/checks"
	"github.com/capgate/capgate/gateway/filter/discovery"
	"github.com/capgate/capgate/gateway/filter/forward"
	"github.com/capgate/capgate/gateway/filter/idempotency"
	"github.com/capgate/capgate/gateway/filter/open"
	"github.com/capgate/capgate/gateway/filter/overload"
	"github.com/capgate/capgate/gateway/filter/peek"
	"github.com/capgate/capgate/gateway/filter/pick"
	"github.com/capgate/capgate/gateway/filter/protocol"
	"github.com/capgate/capgate/gateway/filter/ratelimit"
	"github.com/capgate/capgate/gateway/filter/ready"
	"github.com/capgate/capgate/gateway/filter/resolve"
	"github.com/capgate/capgate/gateway/filter/retry"
	"github.com/capgate/capgate/gateway/filter/scope"
	"github.com/capgate/capgate/gateway/filter/translate"
	"github.com/capgate/capgate/gateway/filter/warm"
	"github.com/capgate/capgate/internal/call"
)

// chain holds the filters of each kind of call, in order. A kind of call that must skip a filter has a list without
// it: no filter checks the kind of its call.
type chain struct {
	call, upload, download, healthcheck *list // calls of capabilities
	other                               *list // calls of other services
	engine                              *list // calls of OpenParallax engines
	internal, internalEngine            *list // calls that the gateway itself makes
	builtin, open                       *list // calls of the gateway's own services; open needs no credential
	ended                               *list // calls that code in the process continues after the client has left
}

// newChain defines the order of the filters, in one place. The filters after begin run for each attempt.
//
// trace comes before any filter that can wait. scope needs only the method, and comes before a message is held. The
// deadline is set before a call is decided. key comes before authorize, because approvals need it; lists of tools and
// stored responses are returned after that. ready comes before the backend of a session is decided. pick takes backend
// and permit in one step. forward writes the headers that only a backend receives. If code in the process serves a
// call (idempotency, translate, guard), it continues the call at the next filter.
func newChain(h *handler) *chain {
	cfg, d, fleets := h.cfg, h.driver, resolve.New(h.cfg.Routing.Router)
	stored := idempotency.NewServer(idempotency.ServerConfig{
		Service: cfg.Routing.Idempotency, Queue: h.fairQueue, MaxMessage: maxMessage, Refuse: refuse})

	host, invoke := check("host", h.hosts.CheckCall), bind("peek", h.reader.With(peek.ReadInvoke))
	resolve, capability := check("resolve", fleets.Check), check("capability", enginefilter.Foreign)
	deadline, engineDeadline := note("deadline", checks.Deadline), note("deadline", enginefilter.Deadline)
	session, artifacts := check("session", checks.Session), check("artifacts", checks.Artifacts)
	key := bind("key", idempotency.NewKeyFilter(stored))
	audit := check("audit", audit.New(interfaceOf[audit.Log](cfg.Observe.Audit)).Check)
	ratelimit := bind("ratelimit", ratelimit.New(interfaceOf[ratelimit.Limiter](cfg.Callers.Limits), h.shares.deciding))
	lists := cfg.Routing.Discovery
	lists.Queue, lists.MaxMessage, lists.Refuse = h.fairQueue, maxMessage, refuse
	authorize, discovery := bind("authorize", h.authorize), bind("discovery", discovery.New(lists))

	begin, backoff, ready := rows{{}}, bind("backoff", retry.Filter{}), bind("ready", h.ready)
	affinity, pick := bind("affinity", affinity.New(cfg.Routing.Affinity)), bind("pick", pick.Filter{})
	attempt := slices.Concat(begin, backoff, ready, affinity, pick)
	protocol := slices.Concat(bind("warm", warm.Filter{}), bind("protocol", protocol.Filter{}))
	translate := bind("translate", translate.New(h.translator))
	forwards := forward.New(cfg.Observe.Recorder, cfg.Routing.Affinity, h.assertions)
	forwardAsIs, forward := bind("forward", forwards), bind("forward", forwards.ByDialect())
	own := slices.Concat(bind("accesslog", h.accesslog(true)), note("trace", h.trace.Note),
		note("self", authenticate.Self), check("wellformed", checks.WellFormed))
	serve := rows{{name: "serve", admit: h.serve}}

	return &chain{
		call: d.list("call", h.entry(scope.Invoke, checks.WellFormed), invoke, resolve, capability,
			check("feature", checks.Feature), deadline, session, artifacts, key, audit, ratelimit, authorize, discovery,
			bind("idempotency", idempotency.New(stored)), attempt, protocol, translate, forward),
		upload: d.list("upload", h.entry(scope.Invoke, checks.WellFormed), resolve, capability, deadline, session, key,
			audit, ratelimit, attempt, protocol, translate, forward),
		download: d.list("download", h.entry(scope.Download, checks.WellFormed),
			bind("peek", h.reader.With(peek.ReadDownload)), resolve, capability, deadline,
			check("restrict", checks.Restrict), session, artifacts, audit, ratelimit, attempt, protocol, forward),
		healthcheck: d.list("healthcheck", h.entry(scope.Invoke, checks.WellFormed), bind("await", peek.Await{}),
			resolve, deadline, session, audit, rows{{name: "health", admit: h.answerHealth}}),
		other: d.list("other", h.entry(scope.Invoke, checks.WellFormedAny), check("resolve", fleets.CheckOther),
			capability, check("method", checks.Method), deadline, session, audit, ratelimit, authorize,
			attempt, forwardAsIs),
		engine: d.list("engine", h.entry(enginefilter.Scope, checks.WellFormed),
			bind("peek", peek.If{Filter: h.reader.With(enginefilter.ReadSession), Wanted: enginefilter.NamesSession}),
			resolve, check("engine", enginefilter.Fleet), engineDeadline, session,
			note("session", enginefilter.NewSession), check("session", enginefilter.Routed), audit, ratelimit,
			begin, ready, affinity, pick, bind("guard", enginefilter.NewGuard(h.guard)), forwardAsIs).once(),
		internal: d.list("internal", own, invoke, resolve, deadline, note("session", checks.ForgetSession), audit,
			begin, backoff, affinity, pick, protocol, translate, forward),
		internalEngine: d.list("internal engine", own, resolve, check("engine", enginefilter.Directed), engineDeadline,
			audit, begin, affinity, pick, forwardAsIs).once(),
		builtin: d.list("builtin", host, bind("authenticate", h.authenticate(nil)), check("scope", scope.Builtin),
			check("wellformed", checks.WellFormedAny), bind("overload", h.overload),
			check("memory", h.bandwidth.Charge), serve),
		open: d.list("open", host, bind("open", open.New(h.callers.Drop, cfg.Clients.OpenCalls)),
			check("wellformed", checks.WellFormedAny), serve),
		ended: d.list("ended", check("ended", func(*filter.Call) *call.Refusal { return filter.ShuttingDown })),
	}
}

// entry returns the first filters of calls that callers make: authentication and admission.
func (h *handler) entry(scope, wellformed func(*filter.Call) *call.Refusal) rows {
	return slices.Concat(bind("accesslog", h.accesslog(false)), note("trace", h.trace.Note),
		check("host", h.hosts.CheckCall), bind("authenticate", h.authenticate(h.cfg.Observe.Metrics.TenantFrom)),
		check("scope", scope), check("listener", checks.Listener), check("wellformed", wellformed),
		bind("overload", h.overload), check("memory", h.bandwidth.Charge), bind("bandwidth", h.bandwidth))
}

// of returns the list for a call, by its path.
func (c *chain) of(t *callState) *list {
	switch t.Info.Method {
	case call.Invoke, call.StreamInvoke:
		return c.call
	case call.Healthcheck:
		return c.healthcheck
	case call.UploadInputArtifact:
		return c.upload
	case call.DownloadOutputArtifact:
		return c.download
	case call.Other:
	}
	switch path := t.Info.Path; {
	case enginefilter.Owns(path):
		return c.engine
	case t.Service == "":
		return c.other
	case strings.HasPrefix(path, "/capgate.v1."):
		return c.builtin
	// Load balancers have no credential, and the responses contain only what the published protos say.
	case strings.HasPrefix(path, "/grpc.reflection."), strings.HasPrefix(path, "/grpc.health.v1."):
		return c.open
	}
	return c.other
}

// ofGateway returns the list of a call that the gateway itself makes.
func (c *chain) ofGateway(t *callState) *list {
	if enginefilter.Owns(t.Info.Path) {
		return c.internalEngine
	}
	return c.internal
}

// states holds the state of a call for each filter that needs it until the call ends.
type states struct {
	open      open.State
	overload  overload.State
	bandwidth bandwidth.State
	ratelimit ratelimit.State
	pick      pick.State
	forward   forward.State
}

// openingStates holds the state of a call for each filter that needs it only until the response starts, or while code
// in the process serves the call. Done receives a zero state after that.
type openingStates struct {
	authenticate authenticate.State
	peek         peek.State
	idempotency  idempotency.State
	authorize    authorize.State
	retry        retry.State
	affinity     affinity.State
	ready        ready.State
	warm         warm.State
	protocol     protocol.State
}

// stateOf returns the accessor of a filter's state, by its type.
func stateOf[S any]() func(*callState) *S {
	for _, of := range [...]any{
		func(*callState) *filter.Stateless { return nil },
		func(t *callState) *authenticate.State { return &t.opening.authenticate },
		func(t *callState) *open.State { return &t.open },
		func(t *callState) *overload.State { return &t.overload },
		func(t *callState) *bandwidth.State { return &t.bandwidth },
		func(t *callState) *peek.State { return &t.opening.peek },
		func(t *callState) *idempotency.State { return &t.opening.idempotency },
		func(t *callState) *ratelimit.State { return &t.ratelimit },
		func(t *callState) *authorize.State { return &t.opening.authorize },
		func(t *callState) *retry.State { return &t.opening.retry },
		func(t *callState) *pick.State { return &t.pick },
		func(t *callState) *forward.State { return &t.forward },
		func(t *callState) *affinity.State { return &t.opening.affinity },
		func(t *callState) *ready.State { return &t.opening.ready },
		func(t *callState) *warm.State { return &t.opening.warm },
		func(t *callState) *protocol.State { return &t.opening.protocol },
	} {
		if found, ok := of.(func(*callState) *S); ok {
			return found
		}
	}
	panic(fmt.Sprintf("no field of a call is a %T", *new(S)))
}
