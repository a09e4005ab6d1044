package mcp

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// capabilityServer serves one MCP server as a capability.
type capabilityServer struct {
	docpb.UnimplementedCapabilityServer
	servers         *Servers
	capability, url string
}

var errGone = errors.New("the server is no longer in the fleet")

// Invoke implements docpb.CapabilityServer.
func (s *capabilityServer) Invoke(ctx context.Context, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	server, release, err := s.servers.Lookup(s.capability, s.url)
	if err != nil {
		return nil, localgrpc.NotStarted(err)
	}
	defer release()
	switch req.GetToolName() {
	case upstream.DiscoveryTool:
		found, err := server.tools(ctx)
		if err != nil {
			return nil, upstream.WithoutHeaders(err, server.transport.secrets())
		}
		reply := &docpb.InvokeResponse{ResultJson: found.tools}
		localgrpc.SetRest(reply, found.leftOut)
		return reply, nil
	case manifest.ListFeatures:
		text, err := server.features(ctx)
		if err != nil {
			return nil, upstream.WithoutHeaders(err, server.transport.secrets())
		}
		return &docpb.InvokeResponse{ResultJson: text}, nil
	}
	result, err := server.call(ctx, req, nil)
	if err != nil {
		return nil, err
	}
	reply := &docpb.InvokeResponse{ResultJson: result.json, Error: result.failure}
	localgrpc.SetRest(reply, result.rest)
	return reply, nil
}

// StreamInvoke implements docpb.CapabilityServer. Each chunk is a JSON document: the server's progress messages, one
// per line, and then the result.
func (s *capabilityServer) StreamInvoke(req *docpb.InvokeRequest,
	stream grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
	ctx := stream.Context()
	server, release, err := s.servers.Lookup(s.capability, s.url)
	if err != nil {
		return localgrpc.NotStarted(err)
	}
	defer release()
	told := make(chan []byte)
	type end struct {
		result *toolResult
		err    error
	}
	ended := make(chan end, 1)
	server.running.Go(func() {
		result, err := server.call(ctx, req, told)
		ended <- end{result, err}
	})
	for {
		select {
		case text := <-told:
			if err := stream.Send(&docpb.InvokeChunk{Data: append(text, '\n')}); err != nil {
				return err
			}
		case e := <-ended:
			if e.err != nil {
				return e.err
			}
			last := &docpb.InvokeChunk{Data: e.result.json, Error: e.result.failure, Done: true}
			localgrpc.SetRest(last, e.result.rest)
			return stream.Send(last)
		}
	}
}

// Healthcheck implements docpb.CapabilityServer. The gateway itself answers those of callers.
func (s *capabilityServer) Healthcheck(ctx context.Context, _ *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	r := s.servers.probe(ctx, s.capability, s.url)
	return &docpb.HealthResponse{Ready: r.OK, Message: r.Reason}, nil
}

// call calls a tool, or a feature. told receives the server's progress messages; it may be nil.
func (v *server) call(ctx context.Context, req *docpb.InvokeRequest, told chan<- []byte) (*toolResult, error) {
	op, err := operationOf(req)
	if err != nil {
		return nil, err
	}
	if ctx, err = upstream.WithCaller(ctx); err != nil {
		return nil, localgrpc.NotStarted(err)
	}
	md, _ := metadata.FromIncomingContext(ctx)
	trace := first(md, tracing.Traceparent)
	ctx, seen := withNote(withTrace(ctx, trace))
	tenant := first(md, filter.TenantHeader)
	own, user, _ := strings.Cut(first(md, filter.OwnSessionHeader), " ")
	session := cmp.Or(req.GetSessionId(), first(md, filter.SessionHeader))
	asks := v.asker(first(md, questions.Metadata), req.GetToolName())
	if op.method == manifest.Complete {
		asks.kinds = 0
	}
	if first(md, questions.AppsMetadata) != "" {
		asks.apps = apps
	}
	of := attempted{tenant: tenant, session: session, own: own, user: user, trace: trace, op: op, told: told,
		seen: seen, asks: asks}
	result, err := asks.rounds(ctx, func(answers *questions.Answers) (*toolResult, error) {
		op.answers = *answers
		return v.tries(ctx, of)
	})
	op.task.drop(ctx, of, result)
	return result, err
}

// attempted holds what the attempts of a call have in common.
type attempted struct {
	tenant, session, own string
	user                 string // owner of the sessions that the call opens
	trace                string
	op                   *operation
	told                 chan<- []byte
	seen                 *responseNote
	asks                 *asker
}

// tries makes a request, and repeats it if the server provably did not start it.
func (v *server) tries(ctx context.Context, of attempted) (*toolResult, error) {
	var rejection error
	for again := true; ; again = false {
		of.op.meta = sdk.Meta{}
		if of.trace != "" {
			of.op.meta[tracing.Traceparent] = of.trace
		}
		if of.told != nil {
			of.op.meta["progressToken"] = v.name + strconv.FormatUint(v.tokens.Add(1), 10)
		}
		if level := of.asks.level(); level != 0 {
			//nolint:staticcheck // deprecated, and still a part of the protocol
			of.op.meta[sdk.MetaKeyLogLevel] = level.String()
		}
		result, lost, err := v.attempt(ctx, of)
		switch {
		case !again && err != nil && rejection != nil && status.Code(err) == codes.Unavailable:
			return nil, rejection
		case !lost || !again:
			return result, err
		case status.Code(err) == codes.FailedPrecondition: // about the gateway's credential, not the session
			rejection = err
		}
	}
}

// attempt makes one request. lost is true if the server provably did not start it because the session is unknown or
// has ended; a new session may succeed.
func (v *server) attempt(ctx context.Context, of attempted) (_ *toolResult, lost bool, _ error) {
	in, lost, err := v.join(ctx, of)
	if err != nil {
		return nil, lost, err
	}
	defer func() { in.release() }()
	if of.op.uri != "" {
		return v.subscribe(ctx, of, &in)
	}
	return v.request(ctx, of, in)
}

// request is attempt in a session.
func (v *server) request(ctx context.Context, of attempted, in joined) (_ *toolResult, lost bool, err error) {
	s, o := in.session, in.open
	ex, end := begin(ctx, of.op.method, of.told)
	defer ex.settle()
	defer end()
	ex.asks = of.asks
	v.setLevel(ctx, o, of.asks.level())
	defer v.listen(ex, s, o)()
	if id, is := strings.CutPrefix(of.op.answers.State, taskPrefix); is {
		result, err := v.resumeTask(ctx, in, of, id)
		return result, false, err
	}
	if ex.tasked, err = v.mustBeTask(ctx, o, of.op.tool); err != nil {
		return nil, false, v.notStarted(ctx, err)
	}
	err = of.op.send(ex.ctx, o.ClientSession, of.op.meta)
	code, raw, refused := ex.answer()
	unsent, cause := ex.unsent()
	over := err != nil && broken(err)
	if over {
		v.forgotten(ctx, s, o)
	}
	switch {
	case raw != nil && refused == nil: // the SDK may not preserve all of it
		s.works.Store(true)
		result, err := v.result(ctx, in, of, raw, ex.tasked)
		return result, false, err
	case ctx.Err() != nil:
		return nil, false, upstream.Ended(ctx.Err())
	case unsent:
		if cause == nil {
			cause = err
		}
		return nil, over, v.notStarted(ctx, cause)
	case o.ID() != "" && s.isForgotten(ctx, o, ex):
		v.forgotten(ctx, s, o)
		if code == http.StatusUnauthorized || code == http.StatusForbidden {
			return nil, true, ex.failureStatus(of.seen)
		}
		return nil, true, upstream.Rejected(call.Unavailable, "the MCP server has ended its session")
	case refused != nil && code != 0:
		return nil, false, unusable(refused)
	}
	if err := v.lacking(ex); err != nil {
		return nil, false, err
	}
	return nil, false, ex.failureStatus(of.seen)
}

// joined is the session of a call in progress.
type joined struct {
	key     sessionKey
	session *session
	open    *opened
	release func() // must be called after the call
}

// join returns the session of a call, which declares what the client answers at a server of its revision. The errors
// are those of attempt.
func (v *server) join(ctx context.Context, of attempted) (_ joined, lost bool, _ error) {
	kinds := of.asks.declared(v.old.Load())
	for again := true; ; again = false {
		key := v.keyOf(of.tenant, of.session, of.own, kinds)
		s, release, err := v.lease(key, of.user)
		if err != nil {
			return joined{}, false, err
		}
		o, err := v.ready(ctx, key, s)
		if err != nil {
			release()
			return joined{}, errors.Is(err, errUnbound), v.notStarted(ctx, err)
		}
		kinds = of.asks.declared(o.InitializeResult().ProtocolVersion < modern)
		if kinds == key.kinds || !again { // else it is the first session, or the server has another revision now
			return joined{key, s, o, release}, false, nil
		}
		release()
	}
}

// wantsRest reports whether the caller of ctx accepts the fields of a result besides its result_json.
func wantsRest(ctx context.Context) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	return first(md, filter.RestHeader) != ""
}

// sessionUnknown is the JSON-RPC code that some servers use for requests with an unknown session.
const sessionUnknown = -32001

// isForgotten reports whether the server refused a call because it no longer knows the session, so that the call did
// not start. HTTP 404 means that (2025-11-25, Streamable HTTP, "Session Management"). Some servers use other statuses,
// which mean the same in a session that has worked. If a tool that has run may have returned the same error, a ping in
// the session decides.
func (s *session) isForgotten(ctx context.Context, o *opened, ex *exchange) bool {
	status, _, _ := ex.answer()
	switch {
	case status == http.StatusNotFound:
		return true
	case !s.works.Load():
		return false
	case status == http.StatusInternalServerError || ex.code() == sessionUnknown && status/100 == 2:
		ping, end := begin(ctx, "ping", nil)
		defer end()
		err := o.Ping(ping.ctx, &sdk.PingParams{})
		of, _, _ := ping.answer()
		return err != nil && (of == http.StatusNotFound || of == status && ping.code() == ex.code())
	case ex.matched() && ex.code() != sessionUnknown:
		return false
	}
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusGone,
		http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// notStarted returns the error of a call that the server did not receive.
func (v *server) notStarted(ctx context.Context, cause error) error {
	if ctx.Err() != nil {
		return upstream.Ended(ctx.Err())
	}
	if err := noteOf(ctx).errUnauthorized(); err != nil {
		return err
	}
	v.all.Log.Debug("call not sent to an MCP server", "capability", v.fleet.Capability, "backend", v.url, "error",
		cause)
	return localgrpc.NotStarted(noteOf(ctx).cause(cause))
}

// failureStatus returns the status of a request that the server may have started, without a result.
func (ex *exchange) failureStatus(seen *responseNote) error {
	ex.mu.Lock()
	code, failure := ex.status, ex.failure
	if code/100 != 2 && !ex.named {
		failure = nil // the status is more specific
	}
	ex.mu.Unlock()
	if failure != nil {
		return ex.errorOf(failure)
	}
	if err := seen.errUnauthorized(); err != nil {
		return err
	}
	words := seen.words(code)
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return upstream.Rejected(call.FailedPrecondition, "the MCP server rejects the gateway or its credential: "+
			words)
	case code == http.StatusNotFound:
		return upstream.Rejected(call.Unimplemented, "the backend's URL is not that of an MCP server: "+words)
	case code == http.StatusTooManyRequests:
		return upstream.Rejected(call.ResourceExhausted, "the MCP server is overloaded: "+words)
	case code >= 300 && code < 400:
		return upstream.Rejected(call.FailedPrecondition, "the MCP server redirects to another URL: "+words)
	case code >= 400 && code < 500:
		return upstream.Rejected(call.Internal, "the MCP server rejects the request: "+words)
	case code >= 500:
		return upstream.Lost("the MCP server fails: " + words)
	}
	return upstream.Lost("the MCP server ended the response without a result")
}

// resourceUnknown is the code for an unknown resource before 2026-07-28.
const resourceUnknown = -32002

// codeOf returns the gRPC code for a JSON-RPC error.
func (ex *exchange) codeOf(code int64) codes.Code {
	switch code {
	case jsonrpc.CodeInvalidParams:
		if ex.isOfResource() {
			return codes.NotFound // 2026-07-28, Resources, "Error Handling"
		}
		return codes.InvalidArgument
	case jsonrpc.CodeMethodNotFound:
		if ex.isOfResource() || ex.method == getPrompt { // the server has none
			return codes.NotFound
		}
		return codes.Unimplemented
	case resourceUnknown:
		if ex.isOfResource() {
			return codes.NotFound
		}
	}
	return codes.Internal
}

func first(md metadata.MD, name string) string {
	if all := md.Get(name); len(all) > 0 {
		return all[0]
	}
	return ""
}
