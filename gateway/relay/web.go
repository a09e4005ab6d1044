package relay

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// The http.Handler is reached in two ways: HTTP/1.1 connections are handed to its
// server as they are; HTTP/2 streams go to it over a connection inside the process,
// as to any upstream.

func (r *Relay) startWeb(h http.Handler) {
	r.web, r.webLn = r.newLocal(UpstreamConfig{Addr: "web"})
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	r.webSrv = &http.Server{
		Handler:           heard(r.bounded(h)),
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 1000},
		ReadHeaderTimeout: r.cfg.SetupTimeout,
		IdleTimeout:       r.cfg.IdleTimeout,
		MaxHeaderBytes:    2 * r.cfg.MaxHeaderList, // beyond that it answers by itself, with a line of text, and hangs up
		ConnState:         r.webConnState,
		ConnContext:       withCarrier,
		ErrorLog:          slog.NewLogLogger(r.cfg.Log.Handler(), slog.LevelDebug),
	}
	r.wg.Go(func() { _ = r.webSrv.Serve(r.webLn) })
}

// bounded answers requests whose header list is too long. Those by HTTP/2 were counted when they came.
func (r *Relay) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.ProtoMajor != 1 || listSize(req) <= r.cfg.MaxHeaderList {
			next.ServeHTTP(w, req)
			return
		}
		if page := r.cfg.TooLong; len(page.Body) > 0 {
			w.Header().Set("Content-Type", page.Type)
			w.Header().Set("Content-Length", strconv.Itoa(len(page.Body)))
		}
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
		_, _ = w.Write(r.cfg.TooLong.Body) // the client may be gone; there is nobody left to tell
	})
}

// listSize is about what a request's header list would have by HTTP/2 (RFC 9113 §6.5.2).
func listSize(req *http.Request) int {
	const each = 32
	n := len(req.Method) + len(req.RequestURI) + len(req.Host) + 3*each
	for name, values := range req.Header {
		for _, v := range values {
			n += len(name) + len(v) + each
		}
	}
	return n
}

// RequestCost is about how many bytes a request by HTTP/1.1 takes besides its body.
func RequestCost(req *http.Request) int64 { return int64(webCost + webHeads*listSize(req)) }

// NewLocalUpstream makes an upstream inside the process: whoever serves the listener
// gets the relay's connections.
func (r *Relay) NewLocalUpstream(name string) (*Upstream, net.Listener) {
	return r.newLocal(UpstreamConfig{Addr: name})
}

func (r *Relay) newLocal(cfg UpstreamConfig) (*Upstream, *handoff) {
	ln := newHandoff()
	cfg.KeepAlive = time.Hour // nothing between the two can fail unnoticed
	cfg.Dial = func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		ln.give(theirs)
		return ours, nil
	}
	u := r.NewUpstream(cfg)
	u.local = true
	return u, ln
}

// webConnState gives back the slot of a client connection that was handed over.
func (r *Relay) webConnState(nc net.Conn, state http.ConnState) {
	c, ok := nc.(*carrier)
	if !ok {
		return
	}
	switch state {
	case http.StateIdle:
		c.heads.over(&c.peer.hold)
	case http.StateClosed, http.StateHijacked:
		r.part(c.peer)
	}
}

// handoff is a listener for connections that were accepted elsewhere.
type handoff struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newHandoff() *handoff {
	return &handoff{conns: make(chan net.Conn), done: make(chan struct{})}
}

// give hands a connection over, or closes it when nobody accepts any more.
func (h *handoff) give(nc net.Conn) {
	select {
	case h.conns <- nc:
	case <-h.done: // the relay is stopping: slots do not matter any more
		_ = nc.Close()
	}
}

func (h *handoff) Accept() (net.Conn, error) {
	select {
	case nc := <-h.conns:
		return nc, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

func (h *handoff) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

func (h *handoff) Addr() net.Addr { return &net.UnixAddr{Name: "handoff", Net: "unix"} }
