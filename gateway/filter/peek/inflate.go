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
	// maxInflating is the maximum number of compressed first messages that are read at once, of all tenants.
	maxInflating = 64
	// inflateCost is the memory for decompression besides the bytes: a window and tables.
	inflateCost = 64 << 10
	// mostInflated is the maximum ratio of decompression with gzip (RFC 1951: 258 bytes from two bits).
	mostInflated = 1032
	// leastGzip is the minimum length of a gzip member: header, an empty block, trailer (RFC 1952 §2.3).
	leastGzip = 20
)

// Tables returns the current table of fleets. *router.Router implements it.
type Tables interface {
	Table() *router.Table
}

// Config configures a Reader. All fields are required.
type Config struct {
	MaxMessage    int             // bytes of a decompressed message
	Memory        *fairshare.Pool // for decompressed messages, by tenant
	Tables        Tables
	ReadsMessages func(capability string) bool // reports whether the decision on calls depends on their messages
}

// Reader decompresses first messages, and is shared by the filters that peek. Only messages of calls that do not name
// their capability elsewhere are decompressed. It runs beside the relay, because a few bytes may take long to
// decompress; the stream is parked meanwhile. The backend receives the original message.
type Reader struct {
	cfg     Config
	slots   *fairshare.Pool // messages in progress, by tenant
	running sync.WaitGroup
}

// NewReader returns a Reader. The caller must close it.
func NewReader(cfg Config) *Reader {
	return &Reader{cfg: cfg, slots: fairshare.New("inflating", maxInflating)}
}

// start makes a call wait until its first message is decompressed.
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
		defer memory.Release(cost) // the part that is kept is charged elsewhere
		plain, refusal := []byte(nil), filter.Panicked
		recovery.Round("inflate", func() { plain, refusal = inflate(msg, size) })
		slots.Release(1)
		p.Resume(func() { c.Message, s.refusal = relay.Message{Data: plain}, refusal })
	})
	return nil
}

// size returns the decompressed size of a message, from the end of its single gzip member (RFC 1952 §2.3.1, ISIZE).
// inflate accepts no more than that.
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

// inflate decompresses a message of exactly one gzip member, with a result of size bytes. Nothing may follow the
// member, because decoders differ in how they handle that.
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
		return nil, rejectedMembers // the last bytes do not belong to the first member
	}
	return nil, filter.Malformed
}

var rejectedMembers = &call.Refusal{Kind: call.InvalidArgument, Reason: "AMBIGUOUS_MESSAGE",
	Message: "the compressed request message is not exactly one gzip member, of which decoders may only read the " +
		"first"}

// Close waits for messages in progress.
func (r *Reader) Close() { r.running.Wait() }

var (
	rejectedEncoding = &call.Refusal{Kind: call.Unimplemented, Reason: "ENCODING_UNSUPPORTED",
		Message: "the request uses a compression other than gzip: name the capability in the metadata " +
			"x-capability-id, or send it uncompressed"}
	rejectedInflating = &call.Refusal{Kind: call.ResourceExhausted, Reason: "TOO_MANY_COMPRESSED",
		RetryAfter: time.Second, Message: "too many concurrent compressed requests that do not name the capability " +
			"in the metadata x-capability-id"}
	rejectedTooLong = &call.Refusal{Kind: call.ResourceExhausted, Reason: "MESSAGE_TOO_LARGE",
		Message: "the request is longer than the gateway accepts"}
)

// needless reports whether no field of a call's first message matters: its capability is named elsewhere, its fleet
// has no sessions or artifacts, and policy does not depend on its tool.
func (r *Reader) needless(c *filter.Call) bool {
	if c.Info.Dialect == call.Legacy && c.Credential.Asserts&tenant.User != 0 {
		return false // it may name a user
	}
	if at := c.Client.At; at != nil && (at.Session != "" || c.Info.Dialect == call.Legacy && at.User != "") {
		return false // it may contradict its listener
	}
	if c.Credential.Only != nil {
		return false // it identifies the only call that is allowed
	}
	table, k := r.cfg.Tables.Table(), c.RoutingKey("")
	if !table.Names(k) {
		return false
	}
	f, refusal := table.Resolve(k, c.Principal.Settings)
	return refusal != nil || !f.HasSessions() && !f.TracksArtifacts() && !c.Principal.Bound() &&
		!r.cfg.ReadsMessages(f.Capability)
}
