package backend

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/loop"
)

// Config configures a backend. The zero value works.
type Config struct {
	Listen       netip.AddrPort // default 127.0.0.1:0
	StreamWindow int            // bytes, default 256 KiB
	ConnWindow   int            // bytes, default 4 MiB
	MaxStreams   int            // streams per connection, default 20000
	Log          *slog.Logger   // receives the errors that end connections; default silent
}

// Backend serves all of its connections on one goroutine.
type Backend struct {
	cfg   Config
	loop  *loop.Loop
	addr  netip.AddrPort
	works map[string]h2.Work // parsed requests
	ready map[h2.Work]answer
	paced pacer

	uploadReply, healthReply []byte
}

// answer is a prepared response to one kind of work.
type answer struct{ msg, last []byte }

const maxPrepared = 256 // kinds of work whose responses are kept

// New returns a backend that is listening.
func New(cfg Config) (*Backend, error) {
	if !cfg.Listen.IsValid() {
		cfg.Listen = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	}
	if cfg.StreamWindow == 0 {
		cfg.StreamWindow = 256 << 10
	}
	if cfg.ConnWindow == 0 {
		cfg.ConnWindow = 4 << 20
	}
	if cfg.MaxStreams == 0 {
		cfg.MaxStreams = 20000
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	l, err := loop.New()
	if err != nil {
		return nil, err
	}
	b := &Backend{cfg: cfg, loop: l, works: map[string]h2.Work{}, ready: map[h2.Work]answer{},
		uploadReply: h2.UploadReply(), healthReply: h2.HealthReply()}
	b.paced.loop = l
	if b.addr, err = l.Listen(cfg.Listen, b.accept); err != nil {
		l.Close()
		return nil, err
	}
	return b, nil
}

// Addr returns the address on which the backend listens.
func (b *Backend) Addr() netip.AddrPort { return b.addr }

// Serve serves until done, which it calls at intervals, returns true.
func (b *Backend) Serve(done func() bool) error {
	defer b.loop.Close()
	const ask = 100 * time.Millisecond
	for !done() {
		if err := b.loop.Run(time.Now().Add(ask), func() bool { return false }); err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend) accept() loop.Handler {
	c := &conn{backend: b}
	c.session = h2.NewSession(h2.Config{
		StreamWindow: b.cfg.StreamWindow, ConnWindow: b.cfg.ConnWindow, MaxStreams: b.cfg.MaxStreams,
	}, c)
	s := c.session
	ok := s.Field(":status", "200")
	typ := s.Field("content-type", "application/grpc")
	c.fields = []int{ok, typ}
	s.Trailers(s.Field("grpc-status", "0"), s.Field("grpc-message", ""))
	c.unknown = []int{ok, typ, s.Field("grpc-status", "12"), s.Field("grpc-message", "unknown method")}
	return c
}

// work returns the response that a request's first field selects.
func (b *Backend) work(name []byte) (h2.Work, error) {
	if w, ok := b.works[string(name)]; ok {
		return w, nil
	}
	w, err := h2.ParseWork(string(name))
	if err != nil {
		return w, err
	}
	if len(b.works) < maxPrepared {
		b.works[string(name)] = w
	}
	return w, nil
}

func (b *Backend) prepare(w h2.Work) (answer, error) {
	key := w
	key.Count = 0
	if a, ok := b.ready[key]; ok {
		return a, nil
	}
	var a answer
	switch w.Kind {
	case h2.ReplyWork:
		a.msg = h2.InvokeResponse(w.Size)
	case h2.ChunksWork:
		a = answer{h2.InvokeChunk(w.Size, false), h2.InvokeChunk(w.Size, true)}
	case h2.PacedWork, h2.IdleWork:
		a.msg = h2.InvokeChunk(w.Size, false)
	case h2.ArtifactWork:
		a = answer{h2.ArtifactChunk(w.Size, false), h2.ArtifactChunk(w.Size, true)}
	default:
		return a, fmt.Errorf("no answer for %s", w)
	}
	if len(b.ready) < maxPrepared {
		b.ready[key] = a
	}
	return a, nil
}
