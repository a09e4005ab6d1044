package relay

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/gateway/relay/accept/http1"
)

// Relay serves clients and forwards their streams to upstreams.
type Relay struct {
	cfg     Config
	accept  *accept.Server
	public  Port // port of Serve
	handler Handler
	shards  []*shard
	epoch   time.Time

	webHandler http.Handler
	webs       atomic.Int64 // number of open HTTP/2 requests
	date       http1.Date

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // all goroutines of the relay except those of accept
	next   atomic.Uint32  // shard of the next connection
	turns  atomic.Uint32  // shard of the next Turn
	gone   chan struct{}  // signals the end of a client connection or an in-process call

	hurriedAt atomic.Int64 // last Hurry, on the shards' clock; 0 means never

	serving  atomic.Int64 // number of functions that serve calls, or were detached from one
	parting  atomic.Bool  // the end of serving functions and in-process calls is awaited
	selfOnce sync.Once
	self     *Peer // see process
}

// New returns a relay that calls h for gRPC streams and passes everything else to web. It does nothing until Serve,
// Open or Unary. Shutdown or Close must be called to end it.
func New(cfg Config, h Handler, web http.Handler) *Relay {
	cfg = cfg.withDefaults()
	r := &Relay{
		cfg:        cfg,
		handler:    h,
		webHandler: web,
		epoch:      time.Now().Add(-time.Second), // 0 on the shards' clock means never
		gone:       make(chan struct{}, 1),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if cfg.TLS != nil {
		r.SetTLS(cfg.TLS)
	}
	for i := range cfg.Shards {
		sh := newShard(r, i)
		if err := sh.startRunQueue(); err != nil {
			cfg.Log.Error("large requests may delay other connections on this shard", "error", err)
		}
		r.shards = append(r.shards, sh)
	}
	r.claim()
	r.accept = accept.New(cfg.accept(r.panicked), http2{r}, web)
	return r
}

// Serve accepts clients of the public port on ln until Shutdown or Close, and closes ln. It returns nil after those,
// or the listener's error.
func (r *Relay) Serve(ln net.Listener) error { return r.ServePort(ln, &r.public) }

// ServePort is Serve for another port.
func (r *Relay) ServePort(ln net.Listener, port *Port) error { return r.accept.Serve(ln, port) }

// SetTLS implements Port.SetTLS for the public port.
func (r *Relay) SetTLS(t *tls.Config) { r.public.SetTLS(t) }

// Authenticated implements accept.Server.Authenticated.
func (r *Relay) Authenticated(p *Peer) { r.accept.Authenticated(p) }

// Rejections returns the number of client connections closed because of a limit.
func (r *Relay) Rejections() accept.Rejections { return r.accept.Rejections() }

// Turn waits in the run queue of one of the shards, in rotation: as long as the bytes of a client with much input
// would wait now.
func (r *Relay) Turn() {
	t := make(queueProbe)
	r.shards[int(r.turns.Add(1))%len(r.shards)].enqueueProbe(t)
	<-t
}

// enqueueProbe appends a probe to the clients' queue, or runs it at once if no client waits.
func (sh *shard) enqueueProbe(t queueProbe) {
	sh.enter()
	defer sh.leave()
	if sh.runQueue.clients.len() > 0 {
		sh.enqueue(t, false)
	} else {
		t.runQueued()
	}
}

func (r *Relay) shard() *shard {
	return r.shards[int(r.next.Add(1))%len(r.shards)]
}

// newLink takes over an HTTP/2 connection: of a client, or, with a pool, to an upstream, where peer is nil. first has
// bytes that were already read. The result runs the connection until its end; nil means that it has ended.
func (sh *shard) newLink(nc net.Conn, p *pool, first []byte, peer *Peer) (run func()) {
	rl, err := newRawLink(nc)
	if err != nil {
		_ = nc.Close()
		if p != nil {
			sh.undialed(p, err)
		}
		return nil
	}
	var l link
	var own **conn
	if rl != nil {
		l, run, own, nc = rl, rl.run, &rl.c, rl.nc
	} else {
		cl := newConnLink(nc)
		l, run, own = cl, cl.run, &cl.c
	}
	if !sh.attach(l, own, p, first, peer) {
		_ = nc.Close()
		return nil
	}
	return run
}

// attach adds a connection to the shard. It returns false if that failed.
func (sh *shard) attach(l link, own **conn, p *pool, first []byte, peer *Peer) (joined bool) {
	sh.enter()
	defer sh.leave()
	if p != nil && p.dead {
		return false
	}
	c := newConn(sh, p, l, peer)
	*own = c
	if sh.relay.ctx.Err() != nil {
		c.lost(ErrClosed)
	} else if len(first) > 0 {
		n := copy(sh.buf[frameHeaderLen:], first)
		c.feed(sh.buf, frameHeaderLen, frameHeaderLen+n)
	}
	return true
}

func (r *Relay) connGone(c *conn) {
	if c.pool == nil {
		wake(r.gone)
	}
}
