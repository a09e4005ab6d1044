package relay

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	xhpack "golang.org/x/net/http2/hpack"
)

// call is one call through the machine, with the request and the response that its two ends will send.
type call struct {
	m    *machine
	num  int
	mode string // how the handler treats the call

	reqHead   []xhpack.HeaderField
	msgLen    int   // first message, without its prefix
	requests  []int // lengths of messages
	responses []int
	reqLen    int // of the body, prefixes included
	respLen   int
	respHead  []xhpack.HeaderField
	trailers  []xhpack.HeaderField // nil means END_STREAM on the last DATA
	down      *side                // at the client
	local     *localTalk           // nil if the client has a connection
	served    *servedTalk          // nil if a backend serves the call, or none does
	ups       []*side              // at backends; only the last may still be active
	unsent    int
	done      int
	result    Result
	parked    []Parked
	bodies    [2][]byte // grown on demand
	asked     bool      // Headers was called
	started   bool      // Started was called
	deadline  int64     // on the shard's clock; 0 means none
	disturbed bool      // an end misbehaved: only the delivered bytes are checked
}

// octet returns the byte at offset off of the request or the response.
func (k *call) octet(up bool, off int) byte {
	n := k.num*31 + off*7 + off>>8
	if !up {
		n += 101
	}
	return byte(n)
}

// bytes returns a part of the request's body or the response's.
func (k *call) bytes(up bool, from, to int) []byte {
	body := &k.bodies[0]
	if !up {
		body = &k.bodies[1]
	}
	for i := len(*body); i < to; i++ {
		*body = append(*body, k.octet(up, i))
	}
	if up {
		frame(*body, k.requests)
	} else {
		frame(*body, k.responses)
	}
	return (*body)[from:to:to]
}

// check compares received bytes with those that the other end sends.
func (k *call) check(s *side, p []byte) {
	want := k.bytes(!s.e.client, s.got, s.got+len(p))
	if k.mode == "reply" && s.e.client {
		want = k.replyBytes()[s.got : s.got+len(p)]
	}
	if !bytes.Equal(p, want) {
		k.m.t.Fatalf("call %d, to client %v: %d bytes at %d differ", k.num, s.e.client, len(p), s.got)
	}
}

func (k *call) replyBytes() []byte {
	msg := k.bytes(false, 0, k.respLen)
	return append(appendUint32([]byte{0}, uint32(len(msg))), msg...)
}

var machineModes = []string{"forward", "forward", "read", "read", "park", "park-read", "read-park", "reply",
	"read-reply", "refuse", "serve", "read-serve"}

// newCall makes up a call. open sends its headers.
func (m *machine) newCall() *call {
	k := &call{m: m, num: len(m.calls), mode: machineModes[m.rng.IntN(len(machineModes))]}
	m.calls = append(m.calls, k)
	m.byNum[strconv.Itoa(k.num)] = k
	k.requests, k.responses = append([]int{m.size()}, m.lengths(2)...), m.lengths(4)
	k.msgLen = k.requests[0]
	if m.rng.IntN(6) == 0 {
		k.requests = nil
	}
	k.reqLen, k.respLen = framed(k.requests), framed(k.responses)
	k.reqHead = append(fields(":method", "POST", ":scheme", "https", ":path", "/x.Y/Z", ":authority", "a.example",
		"content-type", "application/grpc", "te", "trailers", "x-call", strconv.Itoa(k.num), "x-mode", k.mode),
		m.extras()...)
	k.respHead = append(fields(":status", "200", "content-type", "application/grpc"), m.extras()...)
	if m.rng.IntN(5) > 0 {
		k.trailers = append(fields("grpc-status", "0", "grpc-message", ""), m.extras()...)
	}
	if k.inProcess() {
		k.respHead, k.trailers = plain(k.respHead), append(fields("grpc-status", "0"), plain(m.extras())...)
	}
	return k
}

func fields(pairs ...string) []xhpack.HeaderField {
	var out []xhpack.HeaderField
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, xhpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return out
}

// size returns a small number most of the time, and sometimes more than the windows hold.
func (m *machine) size() int {
	switch m.rng.IntN(10) {
	case 0:
		return 0
	case 1:
		return m.rng.IntN(200_000)
	case 2, 3:
		return m.rng.IntN(20_000)
	}
	return m.rng.IntN(300)
}

// extras returns header fields of all kinds: repeated, secret, new each time, long.
func (m *machine) extras() []xhpack.HeaderField {
	var out []xhpack.HeaderField
	for range m.rng.IntN(4) {
		f := xhpack.HeaderField{Name: fmt.Sprintf("x-extra-%d", m.rng.IntN(5)), Value: strconv.Itoa(m.rng.IntN(20))}
		switch m.rng.IntN(20) {
		case 0:
			most := 20 << 10
			if slices.ContainsFunc(out, func(f xhpack.HeaderField) bool { return len(f.Value) > 4<<10 }) {
				most = 4 << 10 // small enough for the header list and the trailers
			}
			f.Value = strings.Repeat("v", m.rng.IntN(24<<10)%most)
		case 1, 2:
			f.Value, f.Sensitive = strconv.Itoa(m.rng.Int()), true
		case 3, 4:
			f.Name, f.Value = "x-bin", strconv.Itoa(m.rng.Int())
		}
		out = append(out, f)
	}
	return out
}

func (k *call) open(e *endpoint) {
	if e.lastID == 0 {
		e.lastID = 1
	} else {
		e.lastID += 2
	}
	s := &side{call: k, e: e, id: e.lastID, born: len(e.windows) - 1, send: initialWindow,
		recv: e.windows[len(e.windows)-1], sentHead: true}
	k.down, e.sides[s.id] = s, s
	s.sentEnd = k.reqLen == 0 && k.m.rng.IntN(2) == 0
	e.headers(s.id, k.reqHead, s.sentEnd)
}

// onHeaders handles a header block from the relay.
func (e *endpoint) onHeaders(id uint32, got []xhpack.HeaderField, end bool) {
	t, s := e.m.t, e.sides[id]
	if !e.client {
		if s != nil || id <= e.lastID || id&1 == 0 {
			t.Fatalf("backend: HEADERS on stream %d after %d; the stream is known: %t", id, e.lastID, s != nil)
		}
		e.lastID = id
		k := e.m.byNum[value(got, "x-call")]
		s = &side{call: k, e: e, id: id, born: e.acked, send: initialWindow, recv: e.windows[e.acked], gotHead: true,
			gotEnd: end}
		if e.sides[id] = s; id <= e.lastGood { // others were disowned by a GOAWAY in flight
			if n := len(k.ups); n > 0 && k.ups[n-1].live() {
				t.Fatalf("call %d was delivered twice", k.num)
			} else if n > 0 && !k.repeatable() && !k.ups[n-1].disowned() {
				t.Fatalf("call %d may have run, and was retried", k.num)
			}
			s.began = k.m.sh.clock()
			k.ups = append(k.ups, s)
		}
		want := append([]xhpack.HeaderField(nil), k.reqHead...)
		want[1].Value = "http"
		if n := len(got) - 1; got[n].Name == "grpc-timeout" {
			got = got[:n]
		}
		equalFields(t.Fatalf, k, got, want)
		return
	}
	if s == nil || s.gotEnd || s.gotReset {
		t.Fatalf("client: HEADERS on stream %d that is not open: %+v", id, s)
	}
	switch status := value(got, ":status"); {
	case status == "103":
		if s.gotHead || end {
			t.Fatalf("103 out of place: it ends the stream: %t; after the head: %t", end, s.gotHead)
		}
		return
	case status == "" && (!s.gotHead || !end):
		t.Fatalf("headers out of place: %v", got)
	case status != "" && s.gotHead:
		t.Fatal("second response headers")
	}
	if s.call.status() == "0" && s.call.forwarded() {
		want := s.call.trailers
		if !s.gotHead {
			if want = s.call.respHead; end {
				want = append(want[:2:2], s.call.trailers...)
			}
		}
		if st := value(got, "grpc-status"); st == "" || st == "0" {
			equalFields(t.Fatalf, s.call, got, want)
		}
	}
	s.gotHead, s.gotEnd = true, end
	if v := value(got, "grpc-status"); end {
		s.status = v
	}
}

// disowned reports whether the backend has announced that it did not start the call.
func (s *side) disowned() bool {
	return !s.late && (s.sentReset && s.sentCode == errRefusedStream || s.id > s.e.lastGood)
}

// live reports whether the backend may still work on the call.
func (s *side) live() bool {
	return !s.e.gone && !s.gotReset && !s.sentReset && !s.sentEnd && s.id <= s.e.lastGood
}

func (k *call) forwarded() bool {
	return k.mode != "refuse" && k.mode != "reply" && k.mode != "read-reply"
}

// status returns the grpc-status with which an undisturbed call ends.
func (k *call) status() string {
	if k.mode == "refuse" {
		return "7"
	}
	if k.forwarded() && k.trailers == nil {
		return "2"
	}
	return "0"
}

func value(list []xhpack.HeaderField, name string) string {
	for _, f := range list {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

func equalFields(fatalf func(string, ...any), k *call, got, want []xhpack.HeaderField) {
	if len(got) != len(want) {
		fatalf("call %d: %d fields, not %d: %.300v", k.num, len(got), len(want), got)
	}
	for i := range got {
		if got[i] != want[i] {
			fatalf("call %d: field %d is %.100v, not %.100v", k.num, i, got[i], want[i])
		}
	}
}

// machineHandler treats each call as its mode says.
type machineHandler struct{ m *machine }

func (h *machineHandler) call(s *Stream) *call {
	if k, ok := s.Value.(*call); ok {
		return k
	}
	v, _ := s.Header("x-call")
	k := h.m.byNum[v]
	s.Value = k
	return k
}

func (h *machineHandler) Headers(s *Stream) {
	k := h.call(s)
	k.asked = true
	if h.m.rng.IntN(2) == 0 {
		s.SetDeadline(time.Hour)
		s.DropHeader("grpc-timeout")
	} else if k.num%4 == 1 {
		d := time.Duration(h.m.rng.Int64N(int64(3 * time.Second)))
		s.SetDeadline(d)
		k.deadline = h.m.sh.now + int64(d)
	}
	if h.m.group != nil && k.num%3 != 0 {
		s.Join(h.m.group)
	}
	if k.num%5 == 0 {
		s.Limit(Limits{Bytes: 1 << 40, Messages: 1 << 40})
	}
	switch k.mode {
	case "forward", "serve":
		k.forward(s)
	case "park", "park-read":
		k.parked = append(k.parked, s.Park())
	case "refuse":
		s.Refuse(Status{Code: 7, Message: "no é%", Details: []byte{1, 2, 3}})
	case "reply":
		s.Reply(k.bytes(false, 0, k.respLen))
	default:
		s.ReadMessage()
	}
}

func (h *machineHandler) Message(s *Stream, msg Message) {
	k := h.call(s)
	if msg.Missing != (k.reqLen == 0) || !msg.Missing && !bytes.Equal(msg.Data, k.bytes(true, 5, 5+k.msgLen)) {
		h.m.t.Errorf("call %d: first message differs", k.num)
	}
	switch k.mode {
	case "read-park":
		k.parked = append(k.parked, s.Park())
	case "read-reply":
		k.mode = "reply"
		s.Reply(k.bytes(false, 0, k.respLen))
	default:
		k.forward(s)
	}
}

func (h *machineHandler) Unsent(s *Stream, err error) {
	k := h.beforeResponse(s)
	if k.unsent++; k.unsent > 20 {
		k.disturbed = true
		s.Refuse(Status{Code: 14, Message: err.Error()})
		return
	}
	k.forward(s)
}

func (h *machineHandler) Again(s *Stream, a Answer) bool {
	k := h.beforeResponse(s)
	if st, ok := a.Trailer("grpc-status"); ok != a.Given || ok && st != "14" {
		h.m.t.Errorf("call %d: answer given %v, %q", k.num, a.Given, st)
	}
	k.disturbed = k.disturbed || k.repeatable() && k.unsent >= 20
	return k.repeatable() && k.unsent < 20
}

// repeatable reports whether the call may run twice.
func (k *call) repeatable() bool { return k.num%2 == 0 }

// startsAgain reports whether the call survives its backend's failure, provided that the backend has not responded yet.
func (k *call) startsAgain() bool {
	return k.repeatable() && !k.m.lenient && k.reqLen <= k.m.sh.relay.cfg.Forwarding.MaxReplay
}

func (h *machineHandler) Explain(s *Stream, f Failure) Status {
	k := h.call(s)
	if f == MemoryExceeded && h.m.lenient || f == UpstreamLost && (h.m.lenient ||
		k.reqLen > h.m.sh.relay.cfg.Forwarding.MaxReplay) {
		k.disturbed = true
	}
	if f == UpstreamNotGRPC {
		return Status{Code: s.ResetCode(), Message: f.String()}
	}
	return Status{Code: 14, Message: f.String()}
}

func (h *machineHandler) Done(s *Stream, r *Result) {
	k := h.call(s)
	if k.done++; k.done > 1 || k.started != s.started {
		h.m.t.Errorf("call %d: done %d times, started %t", k.num, k.done, k.started)
	}
	k.result = *r
	k.disturbed = k.disturbed || k.deadline != 0 && h.m.sh.now >= k.deadline-2*tick
}

// resume decides a parked call.
func (k *call) resume() {
	p := k.parked[0]
	k.parked = k.parked[1:]
	p.Resume(func(s *Stream) {
		if s == nil {
			if k.done == 0 {
				k.m.t.Errorf("call %d: not resumed and not done", k.num)
			}
			return
		}
		if k.mode == "park-read" {
			s.ReadMessage()
			return
		}
		k.forward(s)
	})
}

func (h *machineHandler) Exceeded(*Stream, Failure) bool { return true }
