package relay

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	xhpack "golang.org/x/net/http2/hpack"

	"github.com/capgate/capgate/internal/testkit/check"
)

// servedTalk is a call of the machine that the process serves, step by step, as a function on its own goroutine would.
type servedTalk struct {
	*ServerStream
	got, sent  int // messages
	whole      bool
	begun      bool
	head, data []byte // the rest of the message being sent
	over       bool
}

// inProcess reports whether the process serves the call.
func (k *call) inProcess() bool { return strings.HasSuffix(k.mode, "serve") }

// forward sends the call to its backend.
func (k *call) forward(s *Stream) {
	if !k.inProcess() {
		s.Forward(k.m.up)
		return
	}
	if k.served != nil && !k.served.over && k.served.end.half != nil {
		k.m.t.Fatalf("call %d is served twice", k.num)
	}
	k.served = &servedTalk{ServerStream: serveByHand(s)}
	want := slices.DeleteFunc(slices.Clone(k.reqHead), func(f xhpack.HeaderField) bool {
		return f.Name[0] == ':' || f.Name == "content-type" || f.Name == "te"
	})
	equalFields(k.m.t.Fatalf, k, asHeaders(k.served.Header()), plain(want))
	if k.served.Path() != "/x.Y/Z" || k.served.Authority() != "a.example" {
		k.m.t.Fatalf("call %d: %q at %q", k.num, k.served.Path(), k.served.Authority())
	}
}

// step makes the server take its next step.
func (v *servedTalk) step(k *call) {
	e, rng := &v.end, k.m.rng
	switch {
	case v.over:
	case v.ended():
		v.over = true
		e.cancel()
	case rng.IntN(3) == 0 && !v.whole:
		v.take(k)
	case !e.reply.headed && v.sent == 0 && k.repeatable() && rng.IntN(8) == 0:
		k.disturbed = k.disturbed || !k.startsAgain()
		v.finish(Status{Code: codeUnavailable})
	case !e.reply.headed && (len(k.responses) > 0 || rng.IntN(2) == 0):
		check.Must(k.m.t, v.SendHeader(asFields(k.respHead[2:])...))
	case v.begun || v.sent < len(k.responses):
		v.send(k)
	default:
		check.Must(k.m.t, v.SetTrailer(asFields(k.trailers[1:])...))
		v.finish(Status{})
	}
}

func (v *servedTalk) ended() bool {
	v.end.sh.enter()
	defer v.end.sh.leave()
	return v.end.half == nil
}

// finish does the work of serverEnd.run after the function has returned.
func (v *servedTalk) finish(st Status) {
	v.over = true
	v.end.mu.Lock()
	v.end.reply.ended, v.end.reply.status = true, st
	v.end.mu.Unlock()
	v.end.sh.post(&v.end.event)
	v.end.cancel()
}

func (v *servedTalk) take(k *call) {
	m, tell, err := v.end.take(nil)
	if tell {
		v.end.sh.post(&v.end.event)
	}
	switch {
	case errors.Is(err, errNotYet):
	case err != nil:
		if v.whole = v.end.whole(); v.whole && !errors.Is(err, io.EOF) {
			k.m.t.Fatalf("call %d, served: %v", k.num, err)
		}
	case v.got >= len(k.requests) || len(m.Data) != k.requests[v.got]:
		k.m.t.Fatalf("call %d, served: message %d has %d bytes", k.num, v.got, len(m.Data))
	default:
		from := framed(k.requests[:v.got]) + prefixLen
		if !bytes.Equal(m.Data, k.bytes(true, from, from+len(m.Data))) {
			k.m.t.Fatalf("call %d, served: message %d differs", k.num, v.got)
		}
		v.got++
	}
}

func (v *servedTalk) send(k *call) {
	if !v.begun {
		from := framed(k.responses[:v.sent])
		p := k.bytes(false, from, from+prefixLen+k.responses[v.sent])
		v.head, v.data, v.begun = bytes.Clone(p[:prefixLen]), bytes.Clone(p[prefixLen:]), true
	}
	var err error
	if v.head, v.data, err = v.end.sendSome(v.head, v.data, false); err != nil {
		return // the call has ended
	}
	v.end.sh.post(&v.end.event)
	if len(v.head)+len(v.data) == 0 {
		v.begun = false
		v.sent++
	}
}

// plain returns fields as they are inside the process, where none is sensitive.
func plain(list []xhpack.HeaderField) []xhpack.HeaderField {
	list = slices.Clone(list)
	for i := range list {
		list[i].Sensitive = false
	}
	return list
}

func ofStatus(f xhpack.HeaderField) bool { return strings.HasPrefix(f.Name, "grpc-") }

func asFields(list []xhpack.HeaderField) []Field {
	var out []Field
	for _, f := range list {
		out = append(out, Field{f.Name, f.Value})
	}
	return out
}

func asHeaders(list []Field) []xhpack.HeaderField {
	var out []xhpack.HeaderField
	for _, f := range list {
		out = append(out, xhpack.HeaderField{Name: f.Name, Value: f.Value})
	}
	return out
}
