package gateway

import (
	"strings"

	enginefilter "github.com/capgate/capgate/gateway/engine/filter"
	"github.com/capgate/capgate/internal/call"
)

// chain is the filters that each kind of call passes, in order. A kind of call that is to skip a filter has a list
// without it: no filter asks what kind of call it has.
type chain struct {
	call, upload, download, healthcheck *list // of capabilities
	other                               *list // of services that are not capabilities
	engine                              *list // of OpenParallax engines
	internal, internalEngine            *list // that the gateway itself makes
	builtin, open                       *list // of the gateway's own services; open needs no credential
	late                                *list // that code in the process continues when their client has gone
}

// newChain is the only place that knows the order of filters. Those after attempt run for each try.
//
// trace comes before anything can wait; scope needs only the method, and comes before a message is held; the deadline
// holds while a call is decided; key comes before authorize, as approvals need it; a list of tools is answered and a
// stored response is replayed after that; ready comes before a session's backend is decided; pick takes backend and
// permit in one; forward writes the headers that only a backend gets. Where idempotency, translate or guard have code in
// the process serve a call, that code continues the call at the filter after them.
func newChain(h *handler) *chain {
	c, f := &chain{}, newFilters(h)

	c.call = f.list("call", f.accesslog, f.trace, f.host, f.authenticate, f.scope, f.listener, f.wellformed, f.overload,
		f.memory, f.bandwidth, f.peek, f.resolve, f.capability, f.deadline, f.session, f.artifacts, f.key, f.audit,
		f.ratelimit, f.authorize, f.discovery, f.idempotency,
		f.attempt, f.backoff, f.ready, f.affinity, f.pick, f.warm, f.protocol, f.translate, f.forward)
	c.upload = f.list("upload", f.accesslog, f.trace, f.host, f.authenticate, f.scope, f.listener, f.wellformed,
		f.overload, f.memory, f.bandwidth, f.resolve, f.capability, f.deadline, f.session, f.key, f.audit, f.ratelimit,
		f.attempt, f.backoff, f.ready, f.affinity, f.pick, f.warm, f.protocol, f.translate, f.forward)
	c.download = f.list("download", f.accesslog, f.trace, f.host, f.authenticate, f.scopeDownload, f.listener,
		f.wellformed, f.overload, f.memory, f.bandwidth, f.peekDownload, f.resolve, f.capability, f.deadline, f.restrict,
		f.session, f.artifacts, f.audit, f.ratelimit,
		f.attempt, f.backoff, f.ready, f.affinity, f.pick, f.warm, f.protocol, f.forward)
	c.healthcheck = f.list("healthcheck", f.accesslog, f.trace, f.host, f.authenticate, f.scope, f.listener,
		f.wellformed, f.overload, f.memory, f.bandwidth, f.await, f.resolve, f.deadline, f.session, f.audit, f.health)
	c.other = f.list("other", f.accesslog, f.trace, f.host, f.authenticate, f.scope, f.listener, f.wellformedAny,
		f.overload, f.memory, f.bandwidth, f.resolveOther, f.capability, f.method, f.deadline, f.session, f.audit,
		f.ratelimit, f.authorize,
		f.attempt, f.backoff, f.ready, f.affinity, f.pick, f.forwardAsIs)
	c.engine = f.list("engine", f.accesslog, f.trace, f.host, f.authenticate, f.scopeEngine, f.listener, f.wellformed,
		f.overload, f.memory, f.bandwidth, f.peekSession, f.resolve, f.engine, f.engineDeadline, f.session,
		f.newSession, f.oneEngine, f.audit, f.ratelimit,
		f.attempt, f.ready, f.affinity, f.pick, f.guard, f.forwardAsIs).once()
	c.internal = f.list("internal", f.accesslogInternal, f.trace, f.self, f.wellformed, f.peek, f.resolve,
		f.deadline, f.forgetSession, f.audit,
		f.attempt, f.backoff, f.affinity, f.pick, f.warm, f.protocol, f.translate, f.forward)
	c.internalEngine = f.list("internal engine", f.accesslogInternal, f.trace, f.self, f.wellformed, f.resolve,
		f.sentTo, f.engineDeadline, f.audit,
		f.attempt, f.affinity, f.pick, f.forwardAsIs).once()
	c.builtin = f.list("builtin", f.host, f.authenticateBuiltin, f.scopeBuiltin, f.wellformedAny, f.overload, f.memory,
		f.serve)
	c.open = f.list("open", f.host, f.open, f.wellformedAny, f.serve)
	c.late = f.list("late", f.late)
	return c
}

// of is the list of a call, by its path.
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
	case t.Info.Service == "":
		return c.other
	case strings.HasPrefix(path, "/capgate.v1."):
		return c.builtin
	// Load balancers have no credential, and what these tell is in the published protos.
	case strings.HasPrefix(path, "/grpc.reflection."), strings.HasPrefix(path, "/grpc.health.v1."):
		return c.open
	}
	return c.other
}

// ofGateway is the list of a call that the gateway itself makes.
func (c *chain) ofGateway(t *callState) *list {
	if enginefilter.Owns(t.Info.Path) {
		return c.internalEngine
	}
	return c.internal
}
