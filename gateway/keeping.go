package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"

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
	idempotencyHeader = "idempotency-key"      // of a caller by gRPC, where its fleet has that
	replayedHeader    = "idempotency-replayed" // of an answer that the first call got
)

// keeping is the keeper of answers as an upstream like any other: a gRPC server inside the process.
// A call with an idempotency key goes there when it is decided, before it has a backend, and one
// that is to be carried out comes back as the translator's do. So a call without a key pays nothing,
// and one that runs goes on although its caller leaves.
type keeping struct {
	keeper    *idempotency.Service
	server    *localgrpc.Server
	crossings *crossings
	fairQueue *fairqueue.Queue
	inside    grpc.ClientConnInterface
}

// newKeeping returns nil without a keeper.
func newKeeping(keeper *idempotency.Service, r *relay.Relay, c *crossings, t *fairqueue.Queue, inside grpc.ClientConnInterface) *keeping {
	if keeper == nil {
		return nil
	}
	k := &keeping{keeper: keeper, crossings: c, fairQueue: t, inside: inside}
	k.server = bytesServer(k.serve)
	return k
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
	case h.keeping == nil:
		return refusedKeyless
	}
	t.errand, t.Keyed = newErrand(strings.Clone(key)), true
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

// keep sends a call with an idempotency key to the keeper of answers.
type keep struct {
	h    *handler
	back *list // that one comes back by that is to be carried out
}

// Admit implements filter.Filter.
func (f keep) Admit(_ *filter.Call, t *callState) filter.Step {
	if t.errand == nil {
		return filter.Continue
	}
	t.errand.only = t.Decision.Redeemed
	f.h.leave(t, f.back)
	if t.forward.outcome.Reset(t.Spoken.Method, t.Spoken.Dialect) { // of a repeat, which does not come back
		t.forward.scanned = true
		t.Stream.TapResponse(&t.forward.outcome)
	}
	return t.Serve(f.h.keeping.server.Serve)
}

// Done implements filter.Filter.
func (f keep) Done(_ *filter.Call, t *callState, r *filter.Result) {
	if r.Final {
		t.forward.judge(&t.Call)
	}
	f.h.comeHome(t, r)
}

// serve answers a call that keep has sent.
func (k *keeping) serve(_ any, stream grpc.ServerStream) error {
	ctx := stream.Context()
	x, open := k.crossings.lookIn(ctx)
	path, named := grpc.MethodFromServerStream(stream)
	if !open || !named || x.errand == nil {
		return GRPCStatus(filter.ShuttingDown).Err() // its first passage has ended
	}
	var msg []byte
	if err := stream.RecvMsg(&msg); err != nil {
		return err
	}
	r, err := requestOf(x, msg)
	if err != nil {
		refusal := strictproto.Refuse(err, filter.Malformed)
		x.errand.refuse.Store(refusal)
		return GRPCStatus(refusal).Err()
	}
	switch err := k.fairQueue.Wait(ctx, x.call.Tenant, ""); {
	case errors.Is(err, fairqueue.ErrFull):
		refusal := filter.TooMany(x.caller)
		x.errand.refuse.Store(refusal)
		return GRPCStatus(refusal).Err()
	case err != nil:
		return err
	}
	var said reply // by the backend, to this call
	answer, repeat, refusal := k.keeper.Do(ctx, r, func(ctx context.Context) ([]byte, idempotency.Outcome) {
		return k.carryOut(ctx, path, msg, x.errand, &said)
	})
	if refusal != nil {
		x.errand.refuse.Store(refusal)
		return GRPCStatus(refusal).Err()
	}
	if repeat {
		x.errand.replay.Store(true)
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

// requestOf is what the keeper has to know of a call.
func requestOf(x *crossing, msg []byte) (*idempotency.Request, error) {
	shape, read := x.call.Dialect, dialect.ReadKey
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
		Tenant: x.call.Tenant, User: x.call.User, Agent: x.call.Agent, Key: x.errand.key,
		Method: x.call.Method.String() + " " + shape.String(), Capability: x.call.Capability, Tool: string(key.Tool), Session: x.call.Session,
		Args: key.Args, Only: x.errand.only,
	}
	if x.caller.Settings != nil {
		r.UID = x.caller.Settings.UID()
	}
	return r, nil
}

// reply is what a backend says around its message.
type reply struct{ header, trailer metadata.MD }

// carryOut makes a call again, through the gateway.
func (k *keeping) carryOut(ctx context.Context, path string, msg []byte, e *errand, said *reply) ([]byte, idempotency.Outcome) {
	ctx, opts := dialect.Outgoing(ctx)
	var header, trailer metadata.MD
	var text []byte
	opts = append(opts, grpc.ForceCodec(untouched{}), grpc.Header(&header), grpc.Trailer(&trailer))
	err := k.inside.Invoke(ctx, path, &msg, &text, opts...)
	said.header, said.trailer = dialect.Custom(header), dialect.Custom(trailer)
	end := ending{how: idempotency.NotStarted}
	if !e.miss() {
		end = <-e.ended
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
