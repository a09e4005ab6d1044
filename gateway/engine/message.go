package engine

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/engine/turns"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
)

// fieldMode is that of ClientMessageRequest and of SessionInfo.
const fieldMode = 3

// retryFull is told to who finds the queue full: an answer takes its time.
const retryFull = 5 * time.Second

var downward = &grpc.StreamDesc{ServerStreams: true}

// message passes a user's message on when it is its turn, and its events back. From then on the engine
// goes on whether its caller stays or not, and its turn lasts until it has ended.
func (g *Guard) message(s grpc.ServerStream, p *Passage, path string, msg []byte) error {
	ctx := s.Context()
	numbering, refusal := numberingOf(ctx, p)
	if refusal != nil {
		return g.cfg.Refuse(ctx, refusal)
	}
	msg, ok := renumber(msg, &messageRequest, numbering, p.Settings.Engines)
	if !ok {
		return g.cfg.Refuse(ctx, refusedMode)
	}
	var turn *turns.Turn
	if refusal = g.claim(ctx, p, p.Session); refusal == nil {
		turn, refusal = g.turn(ctx, p)
	}
	if refusal != nil {
		return g.cfg.Refuse(ctx, refusal)
	}
	b := newBacklog(p.Settings.Buffer)
	if err := g.cfg.Detach(ctx, func(ctx context.Context) { g.carry(ctx, *p, path, msg, turn, b) }); err != nil {
		turn.Done()
		return err
	}
	return g.deliver(s, p, b)
}

// turn waits until the engine is free for a call.
func (g *Guard) turn(ctx context.Context, p *Passage) (*turns.Turn, *call.Refusal) {
	p.meter.Waits(1)
	came := time.Now()
	turn, err := g.cfg.Turns.Take(ctx, p.engine(), p.Tenant, p.Settings.Queue)
	p.meter.Waits(-1)
	how, refusal := TurnCame, (*call.Refusal)(nil)
	switch {
	case err == nil:
	case errors.Is(err, turns.ErrFull):
		how, refusal = TurnFull, refusedFull
	case ctx.Err() != nil:
		how, refusal = TurnLeft, refusedLeft
	default:
		how, refusal = TurnUnknown, refusedAway
	}
	p.meter.Turned(how, time.Since(came))
	return turn, refusal
}

// carry makes the call, and reads its events as fast as they come, whether its caller stays or not.
func (g *Guard) carry(ctx context.Context, p Passage, path string, msg []byte, turn *turns.Turn, b *backlog) {
	defer turn.Done()
	defer func() {
		if v := recover(); v != nil {
			recovery.Report("engine message", v)
			b.end(recovery.ErrPanic)
		}
	}()
	p.meter.Runs(1)
	defer p.meter.Runs(-1)
	onward, opts := g.cfg.Onward(ctx)
	onward, cancel := context.WithTimeout(onward, p.Longest)
	defer cancel()
	up, err := g.cfg.Conn.NewStream(onward, downward, path, opts...)
	if err == nil {
		if err = up.SendMsg(&msg); err == nil || errors.Is(err, io.EOF) {
			err = up.CloseSend()
		}
	}
	read, complete, failed := false, false, false
	for err == nil {
		var raw []byte
		if err = up.RecvMsg(&raw); err != nil {
			break
		}
		read = true
		var e event
		if e, err = g.learn(ctx, &p, raw); err == nil {
			b.put(raw)
		}
		if e.last && !complete {
			complete, failed = true, e.failed
			defer time.AfterFunc(lingers, cancel).Stop()
		}
	}
	if complete || errors.Is(err, io.EOF) {
		p.Failed(failed)
		b.end(nil)
		return
	}
	b.end(g.lost(ctx, &p, err, read))
}

// lingers is how long an engine has to end a stream after its last event. Most engines wait for the
// client to do so, and the next message waits for that.
const lingers = 50 * time.Millisecond

// learn takes note of what an event says before its reader can.
func (g *Guard) learn(ctx context.Context, p *Passage, raw []byte) (event, error) {
	e, ok := eventOf(raw)
	if !ok {
		return event{}, g.cfg.Refuse(ctx, refusedAnswer)
	}
	if p.Session == "" && e.session != "" { // the engine's own choice
		if refusal := g.claim(ctx, p, e.session); refusal != nil {
			return event{}, g.cfg.Refuse(ctx, refusal)
		}
		p.Session = e.session
	}
	if e.question != nil {
		g.ask(ctx, p, e.question)
	}
	return e, nil
}

// deliver passes events to the caller until the last, or until the caller is too far behind.
func (g *Guard) deliver(s grpc.ServerStream, p *Passage, b *backlog) error {
	ctx := s.Context()
	sent := make(chan error, 1)
	go func() { // ends with the stream
		sent <- recovery.Do("engine message", func() error {
			for {
				raw, err := b.next(ctx)
				if raw == nil || err != nil {
					return err
				}
				if err := s.SendMsg(&raw); err != nil {
					return err
				}
			}
		})
	}()
	defer b.leave()
	select {
	case err := <-sent:
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-b.over:
		default:
			return err
		}
	case <-b.over:
	}
	p.meter.CutOff(ReaderSlow)
	return g.cfg.Refuse(ctx, behind(p))
}

// lost is how a stream ended for its caller that did not end well. What the engine may have done by then
// its history says. What was never sent ends as the gateway says.
func (g *Guard) lost(ctx context.Context, p *Passage, err error, read bool) error {
	st := status.Convert(err)
	if !read && unsent(st) {
		return err
	}
	switch st.Code() {
	case codes.Unavailable, codes.Unknown, codes.Internal, codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.DataLoss:
		p.meter.CutOff(StreamLost)
		return g.cfg.Refuse(ctx, streamLost(p))
	}
	return err
}

var (
	refusedFull = &call.Refusal{Kind: call.ResourceExhausted, Reason: "ENGINE_QUEUE_FULL", RetryAfter: retryFull,
		Message: "too many messages wait for this engine already; this one was not sent to it"}
	refusedLeft = &call.Refusal{Kind: call.Canceled, Reason: "CALLER_LEFT", Message: "the caller left before its turn came; nothing was sent to the engine"}
)

func behind(p *Passage) *call.Refusal {
	return &call.Refusal{Kind: call.ResourceExhausted, Reason: "ENGINE_READER_SLOW", Metadata: howToRecover(p),
		Message: "the caller is too far behind the engine's events; the engine goes on, and GetHistory has its answer when it is done"}
}

// streamLost has a code that no client tries again of its own accord: the engine stores a message
// before it answers.
func streamLost(p *Passage) *call.Refusal {
	return &call.Refusal{Kind: call.DataLoss, Reason: "ENGINE_STREAM_LOST", Metadata: howToRecover(p),
		Message: "the engine's events were lost on their way; do not send the message again: GetHistory says what became of it"}
}

func howToRecover(p *Passage) map[string]string {
	return map[string]string{"capability": p.Fleet, "session": p.Session, "recover": clients[1:] + "GetHistory"}
}
