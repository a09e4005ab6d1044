package accept_test

import (
	"bytes"
	"errors"
	"net"
	"testing"

	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/internal/testkit/check"
)

// sink is a socket that records its writes.
type sink struct {
	net.Conn
	writes [][]byte
	err    error
}

func (s *sink) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	s.writes = append(s.writes, bytes.Clone(p))
	return len(p), nil
}

// TestGatherer: bytes arrive in order, in as few writes as possible, and none is left in the buffer.
func TestGatherer(t *testing.T) {
	t.Parallel()
	s := &sink{}
	g := &accept.Gatherer{Conn: s}
	var want []byte
	write := func(n int) {
		p := bytes.Repeat([]byte{byte(len(want) % 251)}, n)
		want = append(want, p...)
		_, err := g.Write(p)
		check.Must(t, err)
		clear(p) // as TLS does with its buffer
	}
	const full = accept.GatherBytes
	for _, test := range []struct {
		hold   bool
		sizes  []int
		writes int
	}{
		{false, []int{5, 6}, 2},
		{true, nil, 0},
		{true, []int{1400, 1400, 1400}, 1},
		{true, []int{16413, full - 16413, 1}, 2},
		{true, []int{7, full + 1, 8}, 3},
		{false, []int{9}, 1},
	} {
		before := len(s.writes)
		if test.hold {
			g.Hold()
		}
		for _, n := range test.sizes {
			write(n)
		}
		check.Must(t, g.Flush())
		if n := len(s.writes) - before; n != test.writes || !bytes.Equal(bytes.Join(s.writes, nil), want) {
			t.Errorf("%v: %d writes, want %d", test.sizes, n, test.writes)
		}
	}
	g.Hold()
	write(1)
	s.err = errors.New("gone")
	if err := g.Flush(); !errors.Is(err, s.err) {
		t.Errorf("Flush returned %v", err)
	}
	g.Hold()
	if _, err := g.Write(make([]byte, full)); err != nil {
		t.Errorf("a write that fits failed: %v", err)
	}
	if _, err := g.Write([]byte{1}); !errors.Is(err, s.err) {
		t.Errorf("a further write returned %v", err)
	}
}
