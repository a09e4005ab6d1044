package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/relay/accept"
)

// The bounds of a forwarder. A container of Selu has 256 descriptors, and 64 MB or less.
const (
	maxConns    = 40       // of callers; an orchestrator has one
	maxStreams  = 256      // of one connection
	maxHeaders  = 16 << 10 // bytes of a call's
	maxBuffered = 10 << 20 // bytes of calls that wait for their reader, both ways
	connWindow  = 256 << 10
	maxWaiting  = 1024 // calls that wait for a connection
)

// Forwarder takes calls and forwards them.
type Forwarder struct {
	settings Settings
	ln       net.Listener
	relay    *relay.Relay
	handler  *handler
	log      *slog.Logger
}

// Listen checks settings, reads their files and opens the port. The caller has to Run the Forwarder. An error of the
// settings is a *SettingError.
func Listen(s Settings, log *slog.Logger) (*Forwarder, error) {
	s, err := s.withDefaults()
	if err != nil {
		return nil, err
	}
	targets, err := s.targets(log)
	if err != nil {
		return nil, err
	}
	secure, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	k, err := newKey(s)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", s.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use by another program; set another address by --listen or %s", s.Listen,
			EnvListen)
	}
	if err != nil {
		return nil, wrong(EnvListen, "%v", err)
	}
	f := &Forwarder{settings: s, ln: ln, log: log, handler: &handler{settings: s, key: k, targets: targets, log: log}}
	f.relay = relay.New(relay.Config{
		Shards:     1, // one connection to the gateway
		Log:        log,
		Limits:     accept.Limits{MaxConns: maxConns, MaxNetworkConns: maxConns},
		Timeouts:   relay.Timeouts{Ping: 10 * time.Second},
		HTTP2:      relay.HTTP2{MaxStreams: maxStreams, MaxHeaderList: maxHeaders, ConnWindow: connWindow},
		Forwarding: relay.Forwarding{OmitHeader: hidden},
		Memory:     relay.Memory{MaxBuffered: maxBuffered, MaxConnBuffered: maxBuffered, MaxKept: 512 << 10},
	}, f.handler, http.HandlerFunc(onlyGRPC))
	for _, t := range targets {
		up := relay.UpstreamConfig{Addr: t.authority(), Dial: t.dial, MaxConns: 1, MaxQueue: maxWaiting,
			DialTimeout: dialTimeout, KeepAlive: 20 * time.Second}
		if t.secure {
			up.TLS = secure
		}
		t.upstream = f.relay.NewUpstream(up)
	}
	return f, nil
}

// onlyGRPC answers what is not gRPC.
func onlyGRPC(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "capgate forward takes gRPC over HTTP/2, and nothing else", http.StatusUnsupportedMediaType)
}

// Addr returns the address that the Forwarder listens on.
func (f *Forwarder) Addr() net.Addr { return f.ln.Addr() }

// Run forwards calls until ctx ends, and then waits a limited time for running calls. It returns nil if all have ended.
func (f *Forwarder) Run(ctx context.Context) error {
	f.log.Info("serving", "listen", f.ln.Addr().String(), "gateway", f.settings.URL, "capability",
		f.settings.Capability, "session", f.settings.Session)
	var running sync.WaitGroup
	following, stop := context.WithCancel(context.Background())
	running.Go(func() { f.handler.key.follow(following, f.log, keyInterval) })
	served := make(chan error, 1)
	running.Go(func() { served <- f.relay.Serve(f.ln) })
	defer running.Wait()
	defer stop()
	select {
	case err := <-served:
		f.relay.Close()
		return err
	case <-ctx.Done():
	}
	f.log.Info("stopping")
	draining, cancel := context.WithTimeout(context.Background(), f.settings.Drain)
	defer cancel()
	if err := f.relay.Shutdown(draining); err != nil {
		return fmt.Errorf("calls were cut off after %v", f.settings.Drain)
	}
	return nil
}

// LimitMemory has the garbage collector keep a program small that only forwards.
func LimitMemory() {
	debug.SetGCPercent(10)
	debug.SetMemoryLimit(24 << 20)
}
