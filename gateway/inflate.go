package gateway

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/strictgzip"
	"github.com/capgate/capgate/internal/telemetry/tracing"
)

const (
	// maxInflating is how many compressed first messages are read at once, of all tenants.
	maxInflating = 64
	// inflateCost is what unpacking takes besides the bytes: a window and tables.
	inflateCost = 64 << 10
	// mostInflated is how many times as long as before gzip can make a text (RFC 1951: 258 bytes of two bits).
	mostInflated = 1032
	// leastGzip is the shortest gzip member: header, an empty block, trailer (RFC 1952 §2.3).
	leastGzip = 20
)

// inflater reads compressed first messages, of calls that name their capability
// nowhere else. It does so beside the relay, as a few bytes may take long to unpack:
// the stream is parked meanwhile. What goes upstream is what the client sent.
type inflater struct {
	limit   int             // bytes of an unpacked message
	memory  *fairshare.Pool // bytes of messages at work, by tenant
	slots   *fairshare.Pool // messages at work, by tenant
	running sync.WaitGroup
}

func newInflater(limit int, memory *fairshare.Pool) *inflater {
	return &inflater{limit: limit, memory: memory, slots: fairshare.New("inflating", maxInflating)}
}

// start lets a call wait until its first message is unpacked.
func (in *inflater) start(t *filter.Call, s *peekState, msg []byte) *call.Refusal {
	if encoding, _ := t.Stream.Header("grpc-encoding"); encoding != "gzip" {
		return refusedEncoding
	}
	size, refusal := in.size(msg)
	if refusal != nil {
		return refusal
	}
	slots, memory := in.slots.Of(t.Principal.Owner()), in.memory.Of(t.Principal.Owner())
	if !slots.Reserve(1) {
		return refusedInflating
	}
	cost := int64(len(msg) + size + inflateCost)
	if !memory.Reserve(cost) {
		slots.Release(1)
		return t.OutOfMemory()
	}
	msg = bytes.Clone(msg)
	p := t.Park(tracing.ForMessage)
	in.running.Go(func() {
		defer memory.Release(cost) // what is kept of the message then is charged elsewhere
		plain, refusal := []byte(nil), filter.Panicked
		recovery.Round("inflate", func() { plain, refusal = inflate(msg, size) })
		slots.Release(1)
		p.Resume(func() { t.Message, s.refusal = relay.Message{Data: plain}, refusal })
	})
	return nil
}

// size is how long a message will be, as the end of its one gzip member says (RFC 1952 §2.3.1, ISIZE). The message is
// not longer: inflate takes no more.
func (in *inflater) size(msg []byte) (int, *call.Refusal) {
	if len(msg) < leastGzip || msg[0] != 0x1f || msg[1] != 0x8b {
		return 0, filter.Malformed
	}
	size := int64(binary.LittleEndian.Uint32(msg[len(msg)-4:]))
	switch {
	case size > int64(len(msg))*mostInflated:
		return 0, refusedMembers
	case size > int64(in.limit):
		return 0, refusedTooLong
	}
	return int(size), nil
}

// inflate unpacks a message of exactly one gzip member, which is size bytes long then. Decoders differ in what they make
// of what comes after a first member, so that nothing may.
func inflate(msg []byte, size int) ([]byte, *call.Refusal) {
	r, err := strictgzip.NewReader(bytes.NewReader(msg))
	if err != nil {
		return nil, filter.Malformed
	}
	plain := make([]byte, size)
	if _, err = io.ReadFull(r, plain); err == nil {
		var more [1]byte
		if _, err = io.ReadFull(r, more[:]); errors.Is(err, io.EOF) {
			return plain, nil
		}
	}
	if err == nil || errors.Is(err, strictgzip.ErrFollowed) {
		return nil, refusedMembers // what its last bytes say is not of its first member
	}
	return nil, filter.Malformed
}

var refusedMembers = &call.Refusal{Kind: call.InvalidArgument, Reason: "AMBIGUOUS_MESSAGE",
	Message: "the compressed request message is not exactly one gzip member, and decoders may read the first alone"}

// close waits for what is at work.
func (in *inflater) close() { in.running.Wait() }
