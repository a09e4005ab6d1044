package gateway

import (
	"bytes"
	"compress/gzip"
	"io"
	"sync"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/recovery"
)

// maxInflating is how many compressed first messages are read at once; more are
// refused. Each holds up to maxMessage bytes.
const maxInflating = 64

// inflater reads compressed first messages, of calls that name their capability
// nowhere else. It does so beside the relay, as a few bytes may take long to unpack:
// the stream is parked meanwhile. What goes upstream is what the client sent.
type inflater struct {
	limit   int           // bytes of an unpacked message
	slots   chan struct{} // one per message at work
	running sync.WaitGroup
}

func newInflater(limit int) *inflater {
	return &inflater{limit: limit, slots: make(chan struct{}, maxInflating)}
}

// start unpacks msg and then calls next with the stream, unless that has ended.
func (in *inflater) start(s *relay.Stream, msg []byte, next func(*relay.Stream, []byte, *call.Refusal)) *call.Refusal {
	if encoding, _ := s.Header("grpc-encoding"); encoding != "gzip" {
		return refusedEncoding
	}
	select {
	case in.slots <- struct{}{}:
	default:
		return refusedInflating
	}
	msg = bytes.Clone(msg)
	parked := s.Park()
	in.running.Go(func() {
		defer func() { <-in.slots }()
		plain, refusal := []byte(nil), refusedPanic
		recovery.Round("inflate", func() { plain, refusal = in.inflate(msg) })
		parked.Resume(func(s *relay.Stream) { next(s, plain, refusal) })
	})
	return nil
}

func (in *inflater) inflate(msg []byte) ([]byte, *call.Refusal) {
	r, err := gzip.NewReader(bytes.NewReader(msg))
	if err != nil {
		return nil, refusedMalformed
	}
	plain, err := io.ReadAll(io.LimitReader(r, int64(in.limit)+1))
	switch {
	case err != nil:
		return nil, refusedMalformed
	case len(plain) > in.limit:
		return nil, refusedTooLong
	}
	return plain, nil
}

// close waits for what is at work.
func (in *inflater) close() { in.running.Wait() }
