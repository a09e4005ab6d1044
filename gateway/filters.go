package gateway

import "github.com/capgate/capgate/internal/call"

// filters are the rows of which lists are made, each bound to what its filter remembers of a call.
type filters struct {
	repeat func(*transit, error) *call.Refusal

	accesslog, accesslogInternal                row
	trace, host                                 row
	authenticate, authenticateBuiltin, open     row
	self, comeBack                              row
	scope, scopeDownload, scopeEngine           row
	scopeBuiltin                                row
	wellformed                                  row
	overload, memory, bandwidth                 row
	peek, peekDownload, peekSession, await      row
	resolve, capability, method                 row
	engine, sentTo, backFromGuard               row
	deadline, engineDeadline                    row
	restrict, session, forgetSession, artifacts row
	oneEngine, key                              row
	audit, ratelimit, authorize, idempotency    row
	attempt                                     row // where an attempt begins
	backoff, affinity, pick, warm               row
	protocol, protocolOnce                      row
	translate, translateInternal, guard         row
	forward, forwardAsIs, serve, health         row
}

func newFilters(h *handler, c *chain) *filters {
	auth := func(t *transit) *authState { return &t.auth }
	crossing := func(t *transit) *crossingState { return &t.crossing }
	peeked := func(t *transit) *peekState { return &t.peek }
	f := &filters{

		accesslog:         bind("accesslog", accessLog{h: h}, crossing),
		accesslogInternal: bind("accesslog", accessLog{h: h, gateway: true}, crossing),
		trace:             note("trace", h.trace),
		host:              check("host", h.strange),

		authenticate:        bind("authenticate", authenticate{h: h, metered: true}, auth),
		authenticateBuiltin: bind("authenticate", authenticate{h: h}, auth),
		open:                bind("open", open{h}, auth),
		self:                note("self", authenticateSelf),
		comeBack:            bind("comeback", comeBack{h}, crossing),
		scope:               check("scope", scopeInvoke),
		scopeDownload:       check("scope", scopeDownload),
		scopeEngine:         check("scope", scopeEngine),
		scopeBuiltin:        check("scope", scopeBuiltin),

		wellformed: check("wellformed", (*transit).wellFormed),
		overload:   bind("overload", &h.shedding, func(t *transit) *overloadState { return &t.overload }),
		memory:     check("memory", h.flows.charge),
		bandwidth:  check("bandwidth", h.flows.join),

		peek:         bind("peek", peek{h, readInvoke}, peeked),
		peekDownload: bind("peek", peek{h, readDownload}, peeked),
		peekSession:  bind("peek", peekSession{peek{h, readEngine}}, peeked),
		await:        bind("await", await{}, peeked),

		resolve:        check("resolve", h.resolve),
		capability:     check("capability", (*transit).notEngine),
		method:         check("method", (*transit).hasMethod),
		engine:         check("engine", (*transit).ofEngine),
		sentTo:         check("engine", (*transit).sentTo),
		backFromGuard:  check("engine", (*transit).backFromGuard),
		deadline:       note("deadline", (*transit).setDeadline),
		engineDeadline: note("deadline", (*transit).setEngineDeadline),

		restrict:      check("restrict", (*transit).keepTo),
		session:       check("session", (*transit).readSession),
		forgetSession: note("session", (*transit).forgetSession),
		artifacts:     check("artifacts", (*transit).readArtifacts),
		oneEngine:     check("session", (*transit).readOne),
		key:           check("key", h.readKey),

		audit:       check("audit", h.admitToAudit),
		ratelimit:   bind("ratelimit", ratelimit{h}, func(t *transit) *ratelimitState { return &t.ratelimit }),
		authorize:   bind("authorize", authorize{h}, func(t *transit) *authorizeState { return &t.authorize }),
		idempotency: bind("idempotency", keep{h, c.kept}, crossing),
	}
	f.bindAttempt(h, c)
	return f
}

// bindAttempt binds the filters that run for each attempt.
func (f *filters) bindAttempt(h *handler, c *chain) {
	picked := func(t *transit) *pickState { return &t.pick }
	crossing := func(t *transit) *crossingState { return &t.crossing }
	forwarded := func(t *transit) *forwardState { return &t.forward }
	f.repeat, f.attempt = h.repeat, row{}

	f.backoff = bind("backoff", backoff{h}, func(t *transit) *retryState { return &t.retry })
	f.affinity = bind("affinity", sticky{h}, func(t *transit) *affinityState { return &t.affinity })
	f.pick = bind("pick", pick{h}, picked)
	f.warm = bind("warm", warm{h}, picked)

	f.protocol = bind("protocol", protocol{}, picked)
	f.protocolOnce = bind("protocol", protocol{once: true}, picked)
	f.translate = bind("translate", translate{h, c.translated}, crossing)
	f.translateInternal = bind("translate", translate{h, c.translatedInternal}, crossing)
	f.guard = bind("guard", guarded{h, c.guarded}, crossing)

	f.forward = bind("forward", forward{h: h, dialects: true}, forwarded)
	f.forwardAsIs = bind("forward", forward{h: h}, forwarded)
	f.serve = row{name: "serve", admit: h.forwardInside}
	f.health = row{name: "health", admit: answerHealth}
}

// list makes a list of rows, of which one may be where an attempt begins.
func (f *filters) list(name string, all ...row) *list {
	l := &list{name: name, attempts: maxTries, repeat: f.repeat}
	l.attempt = len(all)
	for _, r := range all {
		if r.admit == nil {
			l.attempt = len(l.rows)
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
