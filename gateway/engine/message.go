package engine

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/gateway/engine/turns"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/strictproto"
)

// fieldMode is the field number in ClientMessageRequest and SessionInfo.
const fieldMode = 3

// sessionHeader is the metadata with the session of a message that named none.
const sessionHeader = "x-session-id"

// retryFull is the retry delay if the queue is full: responses take seconds.
const retryFull = 5 * time.Second

var serverStreaming = &grpc.StreamDesc{ServerStreams: true}

// message waits for the engine's turn, forwards a user's message, and returns its events. Once it is forwarded, the
// engine continues even if the caller leaves, and the turn lasts until the engine has finished.
func (g *Guard) message(s grpc.ServerStream, p *Call, path string, msg []byte) error {
	ctx := s.Context()
	numbering, refusal := numberingOf(ctx, p)
	if refusal != nil {
		return g.cfg.Refuse(ctx, refusal)
	}
	msg, ok := renumber(msg, &messageRequest, numbering, p.Settings.Engines)
	if !ok {
		return g.cfg.Refuse(ctx, refusedMode)
	}
	msg, refusal = openSession(s, p, path, msg)
	if refusal != nil {
		return g.cfg.Refuse(ctx, refusal)
	}
	var turn *turns.Turn
	if refusal = g.claimSession(ctx, p, p.Session); refusal == nil {
		turn, refusal = g.turn(ctx, p)
	}
	if refusal != nil {
		return g.cfg.Refuse(ctx, refusal)
	}
	b := newBacklog(cmp.Or(p.Settings.Buffer, 4<<20))
	if err := g.cfg.Detach(ctx, func(ctx context.Context) { g.run(ctx, *p, path, msg, turn, b) }); err != nil {
		turn.Done()
		return err
	}
	return g.deliver(s, p, b)
}

// openSession returns a message that names the session of its call. If the message named none, the client receives the
// session in the header x-session-id, and in each event.
func openSession(s grpc.ServerStream, p *Call, path string, msg []byte) ([]byte, *call.Refusal) {
	field := methods[path].Session
	named, err := methods[path].ReadSession(msg)
	switch {
	case err != nil:
		return nil, strictproto.Refuse(err, refusedMalformed)
	case len(named) > 0:
		return msg, nil
	case p.Session == "":
		return nil, refusedNoSession
	}
	var with []byte
	r := strictproto.Read(msg, &messageRequest)
	for r.Next() {
		if r.Number != field {
			with = append(with, r.Field...)
		}
	}
	with = appendMessage(with, protowire.Number(field), []byte(p.Session))
	_ = s.SetHeader(metadata.Pairs(sessionHeader, p.Session)) // an error means that the client has disconnected
	return with, nil
}

// turn waits for exclusive access to the engine.
func (g *Guard) turn(ctx context.Context, p *Call) (*turns.Turn, *call.Refusal) {
	p.meter.AddWaiting(1)
	came := time.Now()
	turn, err := g.cfg.Turns.Take(ctx, p.engine(), p.Tenant, max(cmp.Or(p.Settings.Queue, 100), 0))
	p.meter.AddWaiting(-1)
	how, refusal := TurnCame, (*call.Refusal)(nil)
	switch {
	case err == nil:
	case errors.Is(err, turns.ErrFull):
		how, refusal = TurnFull, refusedFull
	case ctx.Err() != nil:
		how, refusal = TurnLeft, refusedLeft
	default:
		how, refusal = TurnUnknown, refusedUnavailable
	}
	p.meter.TurnEnded(how, time.Since(came))
	return turn, refusal
}

// run makes the call, and reads its events at the engine's speed, even if the caller leaves.
func (g *Guard) run(ctx context.Context, p Call, path string, msg []byte, turn *turns.Turn, b *backlog) {
	defer turn.Done()
	defer func() {
		if v := recover(); v != nil {
			recovery.Report("engine message", v)
			b.end(recovery.ErrPanic)
		}
	}()
	p.meter.AddRunning(1)
	defer p.meter.AddRunning(-1)
	onward, opts := g.cfg.Continue(ctx)
	onward, cancel := context.WithTimeout(onward, p.MaxDuration)
	defer cancel()
	up, err := g.cfg.Conn.NewStream(onward, serverStreaming, path, opts...)
	if err == nil {
		if err = up.SendMsg(&msg); err == nil || errors.Is(err, io.EOF) {
			err = up.CloseSend()
		}
	}
	read, complete, failed := false, false, false
	var asked webPageQuestion
	defer func() { asked.withdraw(g, &p) }() // also after a panic
	for err == nil {
		var raw []byte
		if err = up.RecvMsg(&raw); err != nil {
			break
		}
		read = true
		var e event
		if e, err = g.observe(ctx, &p, raw); err == nil {
			asked.observe(ctx, g, &p, &e)
			b.put(raw)
		}
		if e.last && !complete {
			complete, failed = true, e.failed
			defer time.AfterFunc(closeTimeout, cancel).Stop()
		}
	}
	asked.withdraw(g, &p) // before the caller learns of the end, and the next message starts
	if complete || errors.Is(err, io.EOF) {
		p.Failed(failed)
		b.end(nil)
		return
	}
	b.end(g.streamError(ctx, &p, err, read))
}

// closeTimeout is the time for an engine to end a stream after its last event. Most engines wait for the client to end
// it, and the next message waits for the end.
const closeTimeout = 50 * time.Millisecond

// observe processes an event before the reader receives it.
func (g *Guard) observe(ctx context.Context, p *Call, raw []byte) (event, error) {
	e, ok := eventOf(raw)
	if !ok {
		return event{}, g.cfg.Refuse(ctx, refusedAnswer)
	}
	if e.session != "" && e.session != p.Session { // the engine chose the id
		if refusal := g.claimSession(ctx, p, e.session); refusal != nil {
			return event{}, g.cfg.Refuse(ctx, refusal)
		}
		p.Session = e.session
	}
	if e.question != nil {
		g.createApproval(ctx, p, e.question)
	}
	return e, nil
}

// deliver sends events to the caller until the last one, or until the caller is too far behind. The first event shows
// the caller that its turn has come: it is sent even if later events are dropped.
func (g *Guard) deliver(s grpc.ServerStream, p *Call, b *backlog) error {
	defer b.leave()
	err := sendNext(s, b)
	if err == nil {
		sent := make(chan error, 1)
		go func() { // ends with the stream
			sent <- recovery.Do("engine message", func() (err error) {
				for err == nil {
					err = sendNext(s, b)
				}
				return err
			})
		}()
		select {
		case err = <-sent:
		case <-b.over:
			err = errBehind
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, errBehind):
		p.meter.CutOff(ReaderSlow)
		return g.cfg.Refuse(s.Context(), readerSlow(p))
	}
	return err
}

// sendNext sends the next event. The error is that of next, or of the stream.
func sendNext(s grpc.ServerStream, b *backlog) error {
	event, err := b.next(s.Context())
	if err != nil {
		return err
	}
	return s.SendMsg(&event)
}

// streamError returns the error of a failed stream for the caller. If the engine may have received the message, the
// error refers to its history; if it was never sent, the gateway's error is returned.
func (g *Guard) streamError(ctx context.Context, p *Call, err error, read bool) error {
	st := grpcstatus.Convert(err)
	if !read && status.ProgressOf(err) == call.NotSent {
		return err
	}
	switch st.Code() {
	case codes.Unavailable, codes.Unknown, codes.Internal, codes.Canceled, codes.DeadlineExceeded, codes.Aborted,
		codes.DataLoss:
		p.meter.CutOff(StreamLost)
		return g.cfg.Refuse(ctx, streamLost(p))
	}
	return err
}

var (
	refusedNoSession = &call.Refusal{Kind: call.InvalidArgument, Reason: "ENGINE_SESSION_UNKNOWN",
		Message: "the message names no session"}
	refusedFull = &call.Refusal{Kind: call.ResourceExhausted, Reason: "ENGINE_QUEUE_FULL", RetryAfter: retryFull,
		Message: "too many messages are already waiting for this engine; this one was not sent to it"}
	refusedLeft = &call.Refusal{Kind: call.Canceled, Reason: "CALLER_LEFT",
		Message: "the caller left before its turn; nothing was sent to the engine"}
)

func readerSlow(p *Call) *call.Refusal {
	return &call.Refusal{Kind: call.ResourceExhausted, Reason: "ENGINE_READER_SLOW", Metadata: howToRecover(p),
		Progress: call.Sent,
		Message: "the caller is too far behind the engine's events; the engine continues, " +
			"and GetHistory will have its answer"}
}

// streamLost returns an error with a code that clients do not retry automatically: the engine stores a message before
// it responds.
func streamLost(p *Call) *call.Refusal {
	return &call.Refusal{Kind: call.DataLoss, Reason: "ENGINE_STREAM_LOST", Metadata: howToRecover(p),
		Progress: call.Sent,
		Message:  "the engine's events were lost; do not send the message again: GetHistory has the outcome"}
}

func howToRecover(p *Call) map[string]string {
	return map[string]string{"capability": p.Fleet, "session": p.Session, "recover": clients[1:] + "GetHistory"}
}
