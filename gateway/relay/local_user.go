package relay

import (
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// The user's side of a local end. Nothing here takes the shard's lock.

// smallBuffer is the initial size of a local end's buffer for messages.
const smallBuffer = 4 << 10

// segment is the distance of frames in localEnd.out: each has room for its header before it, as in a read buffer.
const segment = frameHeaderLen + maxFrame

// wideBuffer is the size of a buffer that holds a whole window.
const wideBuffer = (initialWindow/maxFrame + 1) * segment

var wideBuffers = sync.Pool{New: func() any { return new([wideBuffer]byte) }}

// webPiece is the initial size of an end for bytes, which is enough for a short response.
const webPiece = 2 * webBuffer

var webPieces = sync.Pool{New: func() any { return new([webPiece]byte) }}

// put appends as much of p to out as credit allows, and returns the rest.
func (e *localEnd) put(p []byte) []byte {
	n := min(e.credit, len(p))
	e.credit -= n
	switch need := len(e.out) + n + (n/maxFrame+1)*frameHeaderLen; {
	case need <= cap(e.out):
	case e.raw && need <= webPiece:
		e.out = append(webPieces.Get().(*[webPiece]byte)[:0], e.out...)
	case need > smallBuffer:
		e.out = append(wideBuffers.Get().(*[wideBuffer]byte)[:0], e.out...)
	}
	for rest := p[:n]; len(rest) > 0; {
		at := len(e.out) % segment
		if at == 0 {
			e.out = append(e.out, make([]byte, frameHeaderLen)...)
			at = frameHeaderLen
		}
		k := min(len(rest), segment-at)
		e.out, rest = append(e.out, rest[:k]...), rest[k:]
	}
	return p[n:]
}

// restore takes back a wide buffer to which the shard no longer refers.
func (e *localEnd) restore() {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch b := e.spare; {
	case cap(b) == webPiece:
		webPieces.Put((*[webPiece]byte)(b[:webPiece]))
		e.spare = nil
	case cap(b) == wideBuffer:
		wideBuffers.Put((*[wideBuffer]byte)(b[:wideBuffer]))
		e.spare = nil
	}
}

// signals returns the channels on which the user waits. nil means that it does not wait, and has not yet.
func (e *localEnd) signals() (readable, writable chan struct{}) {
	if e.raw {
		e.mu.Lock()
		defer e.mu.Unlock()
	}
	return e.readable, e.writable
}

// waitsFor returns a channel for the user to wait on, which it makes the first time. The caller must hold mu.
func waitsFor(signal *chan struct{}) <-chan struct{} {
	if *signal == nil {
		*signal = make(chan struct{}, 1)
	}
	return *signal
}

// send sends a message, and blocks while the window is exhausted. It returns io.EOF if the stream has ended.
func (e *localEnd) send(m Message, last bool) error {
	var prefix [prefixLen]byte
	if m.Compressed {
		prefix[0] = 1
	}
	putUint32(prefix[1:], uint32(len(m.Data)))
	head, data := prefix[:], m.Data
	for {
		var err error
		if head, data, err = e.sendSome(head, data, last); err != nil {
			return err
		}
		e.sh.post(&e.event)
		if len(head)+len(data) == 0 {
			return nil
		}
		<-e.writable
	}
}

func (e *localEnd) sendSome(head, data []byte, last bool) ([]byte, []byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.shut || e.outEnd {
		return nil, nil, io.EOF
	}
	if head = e.put(head); len(head) == 0 {
		data = e.put(data)
		e.outEnd = last && len(data) == 0
	}
	return head, data, nil
}

// closeSend ends the sequence of messages.
func (e *localEnd) closeSend() {
	e.mu.Lock()
	e.outEnd = true
	e.mu.Unlock()
	e.sh.post(&e.event)
}

var errNotYet = errors.New("no complete message was received")

// receive waits for a message, which it stores in buf if it fits, or for the end.
func (e *localEnd) receive(buf []byte) (Message, error) {
	for {
		m, tell, err := e.take(buf)
		if tell {
			e.sh.post(&e.event)
		}
		if err != errNotYet {
			return m, err
		}
		<-e.readable
	}
}

// take is receive without waiting. If tell is true, the shard must be notified of the taken bytes.
func (e *localEnd) take(buf []byte) (m Message, tell bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.in.buf[e.in.off:]
	if len(p) >= prefixLen {
		if n := prefixLen + int(be32(p[1:])); len(p) >= n {
			m = Message{Data: append(buf[:0], p[prefixLen:n]...), Compressed: p[0] != 0}
			e.in.off += n
			e.taken += n
			return m, e.isDue(), nil
		}
	}
	switch {
	case e.tooMuch:
		return m, false, ErrMessageTooLarge
	case !e.inEnd:
		return m, false, errNotYet
	case len(p) > 0:
		return m, false, io.ErrUnexpectedEOF
	}
	return m, false, io.EOF
}

// ready reports whether receive returns without waiting.
func (e *localEnd) ready() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	have, need := e.front()
	return have >= need || e.inEnd || e.tooMuch
}

// isDue reports whether the shard must be notified of the taken bytes: to replenish the window, to free the buffer, or
// because the message at the front needs more window.
func (e *localEnd) isDue() bool {
	have, need := e.front()
	return e.taken >= e.sh.relay.cfg.HTTP2.StreamWindow/2 || have == 0 && cap(e.in.buf) > smallBuffer ||
		0 < have && have < need
}

// Field is a header or trailer. Its name is in lower case.
type Field struct{ Name, Value string }

// keepFields copies the fields of a block without pseudo-headers, the status, and a content-type of plain gRPC.
func keepFields(list *hpack.List) []Field {
	n, size := 0, 0
	for i := range list.Fields {
		if f := &list.Fields[i]; ofSender(f) {
			n++
			size += len(f.Name) + len(f.Value)
		}
	}
	if n == 0 {
		return nil
	}
	var arena strings.Builder
	arena.Grow(size)
	keep := func(s string) string {
		at := arena.Len()
		arena.WriteString(s)
		return arena.String()[at:]
	}
	fields := make([]Field, 0, n)
	for i := range list.Fields {
		if f := &list.Fields[i]; ofSender(f) {
			fields = append(fields, Field{keep(f.Name), keep(f.Value)})
		}
	}
	return fields
}

func ofSender(f *hpack.Field) bool {
	switch f.Tag & nameMask {
	case nameGRPCStatus, nameGRPCMessage, nameGRPCDetails, nameTimeout, nameTE:
		return false
	case nameContentType:
		return f.Tag&tagGRPC == 0
	}
	return f.Tag&tagPseudo == 0
}
