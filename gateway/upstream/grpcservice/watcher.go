package grpcservice

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

// progress is the progress of a call, which its status does not contain.
type progress struct {
	sent     atomic.Bool // the backend may have received it
	begun    atomic.Bool // the response has headers before its status
	answered atomic.Bool // the response has a status
}

type progressKey struct{}

// withProgress returns a context for one call.
func withProgress(ctx context.Context) (context.Context, *progress) {
	p := &progress{}
	return context.WithValue(ctx, progressKey{}, p), p
}

// watcher observes a backend's connections and calls.
type watcher struct{ backend *backend }

var _ stats.Handler = watcher{}

// TagRPC implements stats.Handler.
func (watcher) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (watcher) HandleRPC(ctx context.Context, s stats.RPCStats) {
	p, _ := ctx.Value(progressKey{}).(*progress)
	if p == nil {
		return
	}
	switch s.(type) {
	case *stats.OutHeader:
		p.sent.Store(true)
	case *stats.InHeader:
		p.begun.Store(true)
	case *stats.InTrailer:
		p.answered.Store(true)
	}
}

// TagConn implements stats.Handler.
func (watcher) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (w watcher) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, is := s.(*stats.ConnBegin); is {
		w.backend.connected()
	}
}
