package gateway

import (
	enginefilter "github.com/capgate/capgate/gateway/engine/filter"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/affinity"
	"github.com/capgate/capgate/gateway/filter/audit"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/filter/authorize"
	"github.com/capgate/capgate/gateway/filter/bandwidth"
	"github.com/capgate/capgate/gateway/filter/checks"
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
	auditlog "github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
)

// filters are the rows of which lists are made, each bound to what its filter remembers of a call.
type filters struct {
	driver *driver
	repeat func(*callState, error) *call.Refusal

	accesslog, accesslogInternal                row
	trace, host                                 row
	authenticate, authenticateBuiltin, open     row
	self, late                                  row
	scope, scopeDownload, scopeEngine           row
	scopeBuiltin, listener                      row
	wellformed, wellformedAny                   row
	overload, memory, bandwidth                 row
	peek, peekDownload, peekSession, await      row
	resolve, resolveOther, capability, method   row
	engine, sentTo                              row
	deadline, engineDeadline                    row
	restrict, session, forgetSession, artifacts row
	newSession, oneEngine, key                  row
	audit, ratelimit, authorize, idempotency    row
	discovery                                   row
	attempt                                     row // where an attempt begins
	backoff, ready, affinity, pick, warm        row
	protocol, translate, guard                  row
	forward, forwardAsIs, serve, health         row
}

func newFilters(h *handler) *filters {
	auth := func(t *callState) *authenticate.State { return &t.authenticate }
	key := func(t *callState) *idempotency.State { return &t.idempotency }
	peeked := func(t *callState) *peek.State { return &t.peek }
	f := &filters{

		accesslog:         bind("accesslog", h.accesslog(false), stateless),
		accesslogInternal: bind("accesslog", h.accesslog(true), stateless),
		trace:             note("trace", h.trace.Note),
		host:              check("host", h.hosts.CheckCall),

		authenticate:        bind("authenticate", h.authenticate(h.cfg.Observe.Metrics.Tenant), auth),
		authenticateBuiltin: bind("authenticate", h.authenticate(nil), auth),
		open:                bind("open", h.open, func(t *callState) *open.State { return &t.open }),
		self:                note("self", authenticate.Self),
		late:                check("late", func(*filter.Call) *call.Refusal { return filter.ShuttingDown }),
		scope:               check("scope", scope.Invoke),
		scopeDownload:       check("scope", scope.Download),
		scopeEngine:         check("scope", enginefilter.Scope),
		scopeBuiltin:        check("scope", scope.Builtin),
		listener:            check("listener", checks.Listener),

		wellformed:    check("wellformed", checks.WellFormed),
		wellformedAny: check("wellformed", checks.WellFormedAny),
		overload:      bind("overload", h.overload, func(t *callState) *overload.State { return &t.overload }),
		memory:        check("memory", h.bandwidth.Charge),
		bandwidth:     bind("bandwidth", h.bandwidth, func(t *callState) *bandwidth.State { return &t.bandwidth }),

		peek:         bind("peek", h.reader.With(peek.ReadInvoke), peeked),
		peekDownload: bind("peek", h.reader.With(peek.ReadDownload), peeked),
		peekSession: bind("peek", peek.If{Filter: h.reader.With(enginefilter.ReadSession),
			Wanted: enginefilter.NamesSession}, peeked),
		await: bind("await", peek.Await{}, peeked),

		resolve:        check("resolve", resolve.New(h.cfg.Routing.Router).Check),
		resolveOther:   check("resolve", resolve.New(h.cfg.Routing.Router).CheckOther),
		capability:     check("capability", enginefilter.Foreign),
		method:         check("method", checks.Method),
		engine:         check("engine", enginefilter.Fleet),
		sentTo:         check("engine", enginefilter.Directed),
		deadline:       note("deadline", checks.Deadline),
		engineDeadline: note("deadline", enginefilter.Deadline),

		restrict:      check("restrict", checks.Restrict),
		session:       check("session", checks.Session),
		forgetSession: note("session", checks.ForgetSession),
		artifacts:     check("artifacts", checks.Artifacts),
		newSession:    note("session", enginefilter.NewSession),
		oneEngine:     check("session", enginefilter.Routed),
		key:           bind("key", idempotency.NewKeyFilter(h.idempotency), key),

		audit:       check("audit", newAudit(h.cfg.Observe.Audit).Check),
		ratelimit:   bind("ratelimit", h.ratelimit, func(t *callState) *ratelimit.State { return &t.ratelimit }),
		authorize:   bind("authorize", h.authorize, func(t *callState) *authorize.State { return &t.authorize }),
		discovery:   bind("discovery", h.discovery, stateless),
		idempotency: bind("idempotency", idempotency.New(h.idempotency), key),
	}
	f.bindAttempt(h)
	return f
}

func newAudit(log *auditlog.Log) audit.Filter {
	if log == nil {
		return audit.New(nil)
	}
	return audit.New(log)
}

// bindAttempt binds the filters that run for each attempt.
func (f *filters) bindAttempt(h *handler) {
	said := func(t *callState) *protocol.State { return &t.protocol }
	f.driver, f.repeat, f.attempt = h.driver, repeat, row{}

	f.backoff = bind("backoff", retry.Filter{}, func(t *callState) *retry.State { return &t.retry })
	f.ready = bind("ready", h.ready, func(t *callState) *ready.State { return &t.ready })
	f.affinity = bind("affinity", affinity.New(h.cfg.Routing.Affinity),
		func(t *callState) *affinity.State { return &t.affinity })
	f.pick = bind("pick", pick.Filter{}, func(t *callState) *pick.State { return &t.pick })
	f.warm = bind("warm", warm.Filter{}, func(t *callState) *warm.State { return &t.warm })

	f.protocol = bind("protocol", protocol.Filter{}, said)
	f.translate = bind("translate", translate.New(h.translator), stateless)
	f.guard = bind("guard", enginefilter.NewGuard(h.guard), stateless)

	response := func(t *callState) *forward.State { return &t.forward }
	f.forward = bind("forward", forward.New(h.cfg.Observe.Recorder, h.cfg.Routing.Affinity, true), response)
	f.forwardAsIs = bind("forward", forward.New(h.cfg.Observe.Recorder, h.cfg.Routing.Affinity, false), response)
	f.serve = row{name: "serve", admit: func(t *callState) filter.Step {
		step := t.ServeBy(h.services, nil)
		t.Answer().Served.SetProgress(call.Answered)
		return step
	}}
	f.health = row{name: "health", admit: h.answerHealth}
}

// stateless is the state of filters that remember nothing of a call.
func stateless(*callState) *filter.Stateless { return nil }

// list makes a list of rows, of which one may be where an attempt begins.
func (f *filters) list(name string, all ...row) *list {
	l := &list{name: name, driver: f.driver, attempts: retry.MaxAttempts, repeat: f.repeat}
	l.attempt = rowIndex(len(all))
	for _, r := range all {
		if r.admit == nil {
			l.attempt = rowIndex(len(l.rows))
			continue
		}
		l.rows = append(l.rows, r)
	}
	return l
}

// once lets calls make one attempt only.
func (l *list) once() *list {
	l.attempts = 1
	return l
}
