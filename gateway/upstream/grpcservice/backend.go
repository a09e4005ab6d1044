package grpcservice

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/lib/buildinfo"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

const (
	dialTimeout  = 5 * time.Second
	maxBackoff   = 2 * time.Second  // between attempts to connect; probes have their own connections
	loadTimeout  = 30 * time.Second // for a conversation with server reflection
	maxHeaders   = 64 << 10         // bytes of a response's metadata
	quietTime    = 6 * time.Minute  // time without data before a ping; servers permit one ping in five minutes
	quietTimeout = 20 * time.Second // time for the response to a ping
)

// backend is a backend of a fleet.
type backend struct {
	all      *upstream.Fleets[*backend]
	fleet    *upstream.Fleet
	settings *Settings
	addr     string
	conn     *grpc.ClientConn
	creds    grpc.DialOption
	links    links          // connections of conn
	running  sync.WaitGroup // calls and loads

	connections atomic.Int64 // number of connections made so far; each may be to another process

	mu          sync.Mutex
	definitions *Definitions  // nil means none
	sum         descriptorSum // digest of the descriptors of definitions
	logged      string        // the problems that were last logged
	of          int64         // value of connections when definitions were loaded
	load        *load         // load in progress; nil means none
}

// load is a conversation with server reflection, for which calls wait.
type load struct {
	done        chan struct{}
	definitions *Definitions
	err         error
}

func newBackend(all *upstream.Fleets[*backend], f *upstream.Fleet, addr string) (*backend, error) {
	b := &backend{all: all, fleet: f, settings: settingsOf(f), addr: addr}
	creds := insecure.NewCredentials()
	if f.TLS != nil {
		secure := f.TLS
		if host := f.Hosts[addr]; host != "" && secure.ServerName == "" {
			secure = secure.Clone()
			secure.ServerName = host
		}
		creds = credentials.NewTLS(secure)
	}
	b.creds = grpc.WithTransportCredentials(creds)
	conn, err := grpc.NewClient(target(addr), b.creds,
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return b.links.add(dial(ctx, addr))
		}),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: dialTimeout,
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: maxBackoff}}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: quietTime, Timeout: quietTimeout}),
		grpc.WithUserAgent(buildinfo.UserAgent("capgate")), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0), grpc.WithMaxHeaderListSize(maxHeaders), grpc.WithStatsHandler(watcher{b}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(b.settings.maxMessage()),
			grpc.MaxCallSendMsgSize(upstream.MaxRequest)))
	if err != nil {
		return nil, err
	}
	b.conn = conn
	return b, nil
}

// target returns a target whose name is resolved at each connect, and for which HTTP_PROXY is ignored.
func target(addr string) string { return "passthrough:///" + addr }

// dial connects to a backend.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	return upstream.Dialer(dialTimeout).DialContext(ctx, "tcp", addr)
}

// connected records a new connection. The backend behind it may have other methods.
func (b *backend) connected() {
	if b.connections.Add(1) > 1 && definitionsOf(b.fleet) == nil {
		b.all.Changed(b.fleet.Capability)
	}
}

// known returns the definitions of the backend, which are loaded if they are unknown, or anew is true.
func (b *backend) known(ctx context.Context, anew bool) (*Definitions, error) {
	if fixed := definitionsOf(b.fleet); fixed != nil {
		return fixed, nil
	}
	b.mu.Lock()
	if b.definitions != nil && b.of == b.connections.Load() && !anew {
		defer b.mu.Unlock()
		return b.definitions, nil
	}
	loading := b.load
	if loading == nil {
		loading = &load{done: make(chan struct{})}
		b.load = loading
		b.running.Add(1) // the caller is counted in running
		go b.reflect(loading)
	}
	b.mu.Unlock()
	select {
	case <-loading.done:
		return loading.definitions, loading.err
	case <-ctx.Done():
		return nil, upstream.Ended(ctx.Err())
	}
}

// reflect loads the definitions.
func (b *backend) reflect(loading *load) {
	defer b.running.Done()
	ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
	defer cancel()
	of := b.connections.Load()
	var sum descriptorSum
	loading.err = recovery.Do("server reflection", func() error {
		md, err := asserted(ctx, b.all, b.fleet)
		if err != nil {
			return err
		}
		found, err := reflect(metadata.NewOutgoingContext(ctx, md), b.conn, b.settings.Methods)
		if err != nil {
			return err
		}
		release, err := b.all.Work.Acquire(ctx, b.fleet.Capability)
		if err != nil {
			return upstream.Ended(err)
		}
		defer release()
		sum = sumOf(found)
		if loading.definitions = b.compiled(sum); loading.definitions == nil {
			loading.definitions, err = b.compile(ctx, found)
		}
		return err
	})
	b.mu.Lock()
	b.load = nil
	if loading.definitions != nil {
		b.definitions, b.sum, b.of = loading.definitions, sum, max(of, 1)
	}
	b.mu.Unlock()
	close(loading.done)
}

// compile returns the definitions of descriptors.
func (b *backend) compile(ctx context.Context, found *descriptors) (*Definitions, error) {
	files, err := link(ctx, found)
	if err != nil {
		return nil, status.FromContextError(err).Err()
	}
	definitions, problems := define(ctx, files, b.settings.Methods, b.settings.ToolNames)
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	all := problems.all()
	b.logLeftOut(all)
	if definitions == nil {
		return nil, status.Errorf(codes.Internal, "the backend has no method that can be a tool: %s",
			untrusted.Clip(all[0].Error(), maxText))
	}
	return definitions, nil
}

// compiled returns the definitions previously compiled from the same descriptors; nil means none.
func (b *backend) compiled(sum descriptorSum) *Definitions {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sum != sum {
		return nil
	}
	return b.definitions
}

// descriptorSum is a digest of descriptors.
type descriptorSum [sha256.Size]byte

func sumOf(d *descriptors) (sum descriptorSum) {
	hash := sha256.New()
	add := func(text []byte) {
		_ = binary.Write(hash, binary.BigEndian, uint64(len(text)))
		_, _ = hash.Write(text)
	}
	for _, f := range d.files {
		text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(f) // a decoded message can always be encoded
		add(text)
	}
	for _, name := range slices.Sorted(maps.Keys(d.broken)) {
		add([]byte(name))
		add([]byte(d.broken[name].Error()))
	}
	for _, service := range slices.Sorted(maps.Keys(d.asked)) {
		add(fmt.Append(nil, service, d.asked[service]))
	}
	hash.Sum(sum[:0])
	return sum
}

// logLeftOut logs which methods have no tool, and why, unless the same was last logged.
func (b *backend) logLeftOut(problems []error) {
	text := fmt.Sprint(problems)
	b.mu.Lock()
	again := b.logged == text
	b.logged = text
	b.mu.Unlock()
	if !again && !upstream.Repeats(text, metadataOf(b.fleet)) {
		logLeftOut(b.all.Log.With("capability", b.fleet.Capability, "backend", b.addr), problems)
	}
}

// logLeftOut logs which methods have no tool, and why.
func logLeftOut(log *slog.Logger, problems []error) {
	const most = 20 // maximum number of log lines; the rest is counted
	for i, err := range problems {
		if i == most {
			log.Warn("more methods of a gRPC service were left out", "methods", len(problems)-most)
			return
		}
		log.Warn("a method of a gRPC service was left out", "error", upstream.Said(err.Error(), maxText))
	}
}
