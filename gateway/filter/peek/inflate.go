package peek

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/strictgzip"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/router"
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

// Tables has the table of fleets in force, as *router.Router does.
type Tables interface {
	Table() *router.Table
}

// Config is for a Reader. All of it is required.
type Config struct {
	MaxMessage    int             // bytes of an unpacked message
	Memory        *fairshare.Pool // bytes of messages that are unpacked, by tenant
	Tables        Tables
	ReadsMessages func(capability string) bool // whether the decision on calls depends on their messages
}

// Reader is shared by the filters that peek. It unpacks compressed first messages of calls that name their capability
// nowhere else. It does so beside the relay, as a few bytes may take long to unpack: the stream is parked meanwhile.
// The backend gets what the client sent.
type Reader struct {
	cfg     Config
	slots   *fairshare.Pool // messages at work, by tenant
	running sync.WaitGroup
}

// NewReader returns a Reader, which is to be closed.
func NewReader(cfg Config) *Reader {
	return &Reader{cfg: cfg, slots: fairshare.New("inflating", maxInflating)}
}

// start lets a call wait until its first message is unpacked.
func (r *Reader) start(c *filter.Call, s *State, msg []byte) *call.Refusal {
	if encoding, _ := c.Stream.Header("grpc-encoding"); encoding != "gzip" {
		return rejectedEncoding
	}
	size, refusal := r.size(msg)
	if refusal != nil {
		return refusal
	}
	slots, memory := r.slots.Of(c.Principal.Owner()), r.cfg.Memory.Of(c.Principal.Owner())
	if !slots.Reserve(1) {
		return rejectedInflating
	}
	cost := int64(len(msg) + size + inflateCost)
	if !memory.Reserve(cost) {
		slots.Release(1)
		return c.OutOfMemory()
	}
	msg = bytes.Clone(msg)
	p := c.Park(tracing.ForMessage)
	r.running.Go(func() {
		defer memory.Release(cost) // what is kept of the message then is charged elsewhere
		plain, refusal := []byte(nil), filter.Panicked
		recovery.Round("inflate", func() { plain, refusal = inflate(msg, size) })
		slots.Release(1)
		p.Resume(func() { c.Message, s.refusal = relay.Message{Data: plain}, refusal })
	})
	return nil
}

// size is how long a message will be, as the end of its one gzip member says (RFC 1952 §2.3.1, ISIZE). The message is
// not longer: inflate takes no more.
func (r *Reader) size(msg []byte) (int, *call.Refusal) {
	if len(msg) < leastGzip || msg[0] != 0x1f || msg[1] != 0x8b {
		return 0, filter.Malformed
	}
	size := int64(binary.LittleEndian.Uint32(msg[len(msg)-4:]))
	switch {
	case size > int64(len(msg))*mostInflated:
		return 0, rejectedMembers
	case size > int64(r.cfg.MaxMessage):
		return 0, rejectedTooLong
	}
	return int(size), nil
}

// inflate unpacks a message of exactly one gzip member, which is size bytes long then. Decoders differ in what they
// make of what comes after a first member, so that nothing may.
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
		return nil, rejectedMembers // what its last bytes say is not of its first member
	}
	return nil, filter.Malformed
}

var rejectedMembers = &call.Refusal{Kind: call.InvalidArgument, Reason: "AMBIGUOUS_MESSAGE",
	Message: "the compressed request message is not exactly one gzip member, and decoders may read the first alone"}

// Close waits for what is at work.
func (r *Reader) Close() { r.running.Wait() }

var (
	rejectedEncoding = &call.Refusal{Kind: call.Unimplemented, Reason: "ENCODING_UNSUPPORTED",
		Message: "the request is compressed otherwise than by gzip: name the capability by metadata x-capability-id, " +
			"or send it plain"}
	rejectedInflating = &call.Refusal{Kind: call.ResourceExhausted, Reason: "TOO_MANY_COMPRESSED",
		RetryAfter: time.Second, Message: "too many compressed requests at once that name no capability by metadata " +
			"x-capability-id"}
	rejectedTooLong = &call.Refusal{Kind: call.ResourceExhausted, Reason: "MESSAGE_TOO_LARGE",
		Message: "the request is longer than the gateway accepts"}
)

// needless says that the first message of a call has nothing to go by: its capability is named
// elsewhere, its fleet does not care for sessions or artifacts, nor policy for its tool.
func (r *Reader) needless(c *filter.Call) bool {
	if c.Info.Dialect == call.Legacy && c.Principal.Asserts&tenant.User != 0 {
		return false // it may say whose call it is
	}
	if at := c.Client.At; at != nil && (at.Session != "" || c.Info.Dialect == call.Legacy && at.User != "") {
		return false // it may say something else than its listener
	}
	if c.Principal.Only != nil {
		return false // it says whether the call is the one that may be
	}
	table, k := r.cfg.Tables.Table(), c.RoutingKey("")
	if !table.Names(k) {
		return false
	}
	f, refusal := table.Resolve(k, c.Principal.Settings)
	return refusal != nil || !f.HasSessions() && !f.TracksArtifacts() && !c.Principal.Bound() &&
		!r.cfg.ReadsMessages(f.Capability)
}
