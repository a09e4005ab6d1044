package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/frontdoor/fairqueue"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/lib/strictproto"
)

// Metadata of idempotency keys.
const (
	idempotencyHeader = "idempotency-key"      // of a caller over gRPC, where its fleet has that
	replayedHeader    = "idempotency-replayed" // of an answer that the first call got
)

// idempotencyServer answers calls with an idempotency key: with a stored response, or by continuing the call and
// storing the response of its backend. A call without a key pays nothing for it, and one that runs goes on although
// its caller leaves.
type idempotencyServer struct {
	service   *idempotency.Service
	server    *localgrpc.Server
	fairQueue *fairqueue.Queue
	onward    grpc.ClientConnInterface
}

// newIdempotency returns nil without a service.
func newIdempotency(service *idempotency.Service, q *fairqueue.Queue, onward grpc.ClientConnInterface) *idempotencyServer {
	if service == nil {
		return nil
	}
	i := &idempotencyServer{service: service, fairQueue: q, onward: onward}
	i.server = bytesServer(i.serve)
	return i
}

// keyedCall is what is remembered of a call with an idempotency key.
type keyedCall struct {
	key     string
	only    *call.Refusal   // it may not be carried out, but may have been; nil: it may
	outcome dialect.Scanner // of the response that the caller gets

	replayed atomic.Bool   // it got a stored response
	ended    chan ending   // has room for one: how the stream ended that continued it
	last     *relay.Result // of the stream at the backend; nil: there was none
}

// ending is how the stream ended that continued a call.
type ending struct {
	how      idempotency.Outcome
	answered bool // with OK
}

// fate is what a stream of the call that ended with r says of whether the call was carried out. What backends answer
// proves that they had it, but for the codes that proxies and servers on their way out use, too.
func fate(c *filter.Call, r *relay.Result) (e ending) {
	switch {
	case !c.Attempt.Started || r.Forwarded == 0:
		e.how = idempotency.NotStarted
		return e
	case !r.Upstream || r.FirstByte == 0:
		return e
	}
	switch codes.Code(r.Code) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return e
	}
	return ending{how: idempotency.Executed, answered: r.Code == 0}
}

// readKey finds out whether a call has an idempotency key, and may have one.
func (h *handler) readKey(t *callState) *call.Refusal {
	key, given, twice := t.keyGiven()
	switch {
	case !given:
		return nil
	case t.Info.Method == call.StreamInvoke || t.Info.Method == call.UploadInputArtifact:
		return refusedKeyedStream
	case t.Info.Method != call.Invoke:
		return nil
	case twice || !idempotency.Valid(key):
		return refusedKey
	case h.idempotency == nil:
		return refusedKeyless
	}
	t.keyed, t.Keyed = &keyedCall{key: strings.Clone(key), ended: make(chan ending, 1)}, true
	return nil
}

// keyGiven takes the idempotency key out of a call: from the front door that makes it, or, where the fleet's keys are
// the gateway's, from its metadata. twice is whether there are different ones.
func (t *callState) keyGiven() (key string, given, twice bool) {
	if a := t.auth.arrival; a != nil && len(a.IdempotencyKeys) > 0 {
		key = a.IdempotencyKeys[0]
		return key, true, slices.ContainsFunc(a.IdempotencyKeys, func(other string) bool { return other != key })
	}
	if !t.Fleet.Keyed() {
		return "", false, false
	}
	if key, given = t.Stream.Header(idempotencyHeader); !given {
		return "", false, false
	}
	twice = t.Stream.Contradicts(idempotencyHeader)
	t.Stream.DropHeader(idempotencyHeader)
	return key, true, twice
}

var (
	refusedKeyedStream = &call.Refusal{Kind: call.Unimplemented, Reason: "IDEMPOTENCY_UNSUPPORTED",
		Message: "answers of streams and uploads are not kept: send this call without an idempotency key, or, if it is of a tool, not as a stream"}
	refusedKey = &call.Refusal{Kind: call.InvalidArgument, Reason: "IDEMPOTENCY_KEY_INVALID",
		Message: "an idempotency key has 1 to 255 printable characters of ASCII, and a call has one at most"}
	refusedKeyless = &call.Refusal{Kind: call.FailedPrecondition, Reason: "IDEMPOTENCY_OFF", Message: "this gateway takes no idempotency keys"}
)

// idempotent has calls with an idempotency key served by the idempotencyServer.
type idempotent struct{ h *handler }

// Admit implements filter.Filter.
func (f idempotent) Admit(_ *filter.Call, t *callState) filter.Step {
	k := t.keyed
	if k == nil {
		return filter.Continue
	}
	k.only = t.Decision.Redeemed
	if k.outcome.Reset(t.Spoken.Method, t.Spoken.Dialect) {
		t.Stream.TapResponse(&k.outcome)
	}
	return t.serveBy(f.h.idempotency.server)
}

// Continued tells the idempotencyServer whether the call was carried out.
func (idempotent) Continued(_ *filter.Call, t *callState, r *relay.Result) {
	if r.Forwarded > 0 {
		t.keyed.last = r
	}
	select {
	case t.keyed.ended <- fate(&t.Call, r):
	default: // it was told before
	}
}

// Done implements filter.Filter. A call that went on without its caller has ended as its backend says.
func (idempotent) Done(_ *filter.Call, t *callState, r *filter.Result) {
	switch k := t.keyed; {
	case k == nil || !r.Final:
	case k.replayed.Load():
		t.Outcome = outcomes[k.outcome.Outcome()]
	case k.last != nil && r.Failure == relay.ClientGone:
		r.Code, r.Failure = k.last.Code, k.last.Failure
	}
}

// serve answers a call. It is a grpc.StreamHandler.
func (i *idempotencyServer) serve(_ any, stream grpc.ServerStream) error {
	ctx := stream.Context()
	v := servedOf(ctx)
	var msg []byte
	if err := stream.RecvMsg(&msg); err != nil {
		return err
	}
	r, err := requestOf(v, msg)
	if err != nil {
		return refuse(ctx, strictproto.Refuse(err, filter.Malformed))
	}
	switch err := i.fairQueue.Wait(ctx, v.call.Tenant, ""); {
	case errors.Is(err, fairqueue.ErrFull):
		return refuse(ctx, filter.TooMany(v.caller))
	case err != nil:
		return err
	}
	var said reply // by the backend, to this call
	answer, repeat, refusal := i.service.Do(ctx, r, func(ctx context.Context) ([]byte, idempotency.Outcome) {
		return i.carryOut(ctx, v, msg, &said)
	})
	if refusal != nil {
		return refuse(ctx, refusal)
	}
	if repeat {
		v.keyed.replayed.Store(true)
		said = reply{header: metadata.Pairs(replayedHeader, "true"), trailer: metadata.Pairs(replayedHeader, "true")}
	}
	stream.SetTrailer(said.trailer)
	text, err := opened(answer)
	if err != nil {
		return err
	}
	if err := stream.SetHeader(said.header); err != nil {
		return err
	}
	return stream.SendMsg(&text)
}

// requestOf is what the service has to know of a call.
func requestOf(v *served, msg []byte) (*idempotency.Request, error) {
	shape, read := v.call.Dialect, dialect.ReadKey
	switch shape {
	case call.Legacy:
		read = dialect.ReadLegacyKey
	case call.Live:
		shape = call.Doc // an answer of one is an answer of the other
	}
	key, err := read(msg)
	if err != nil {
		return nil, err
	}
	r := &idempotency.Request{
		Tenant: v.call.Tenant, User: v.call.User, Agent: v.call.Agent, Key: v.keyed.key,
		Method: v.call.Method.String() + " " + shape.String(), Capability: v.call.Capability, Tool: string(key.Tool), Session: v.call.Session,
		Args: key.Args, Only: v.keyed.only,
	}
	if v.caller.Settings != nil {
		r.UID = v.caller.Settings.UID()
	}
	return r, nil
}

// reply is what a backend says around its message.
type reply struct{ header, trailer metadata.MD }

// carryOut continues a call at its backend, also when its caller leaves meanwhile.
func (i *idempotencyServer) carryOut(ctx context.Context, v *served, msg []byte, said *reply) (answer []byte, how idempotency.Outcome) {
	done := make(chan struct{})
	err := localgrpc.Detach(ctx, func(alive context.Context) {
		defer close(done)
		if deadline, has := ctx.Deadline(); has {
			var cancel context.CancelFunc
			alive, cancel = context.WithDeadline(alive, deadline)
			defer cancel()
		}
		answer, how = i.invoke(alive, v, msg, said)
	})
	if err != nil {
		return nil, idempotency.NotStarted // its caller has left before
	}
	<-done
	return answer, how
}

func (i *idempotencyServer) invoke(ctx context.Context, v *served, msg []byte, said *reply) ([]byte, idempotency.Outcome) {
	ctx, opts := dialect.Outgoing(ctx)
	var header, trailer metadata.MD
	var text []byte
	opts = append(opts, grpc.ForceCodec(untouched{}), grpc.Header(&header), grpc.Trailer(&trailer))
	err := i.onward.Invoke(ctx, v.call.Path, &msg, &text, opts...)
	said.header, said.trailer = dialect.Custom(header), dialect.Custom(trailer)
	end := ending{how: idempotency.NotStarted}
	if v.begun.Load() {
		end = <-v.keyed.ended
	}
	if err == nil {
		return append([]byte{packedMessage}, text...), end.how
	}
	if end.answered { // but that did not get here
		end.how = idempotency.InDoubt
	}
	st := status.Convert(err)
	packed, err := proto.Marshal(st.Proto())
	if err != nil {
		return nil, idempotency.InDoubt // which a status of grpc-go rules out
	}
	return append([]byte{packedStatus}, packed...), end.how
}

// What an answer begins with, as it is kept.
const (
	packedMessage = 'm' // a message follows
	packedStatus  = 's' // a google.rpc.Status follows
)

// opened is the message of an answer, or its error.
func opened(answer []byte) ([]byte, error) {
	if len(answer) == 0 {
		return nil, errPacked
	}
	if answer[0] == packedMessage {
		return answer[1:], nil
	}
	var st spb.Status
	if answer[0] != packedStatus || proto.Unmarshal(answer[1:], &st) != nil || codes.Code(st.GetCode()) == codes.OK {
		return nil, errPacked
	}
	return nil, status.FromProto(&st).Err()
}

var errPacked = status.Error(codes.Internal, "an answer that was kept cannot be read")
