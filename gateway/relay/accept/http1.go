package relay

import (
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
)

// The http.Handler is reached in two ways: HTTP/1.1 connections are handed to net/http's server as they are; requests
// over HTTP/2 are streams that the process serves, see webEnd.

func (r *Relay) startWeb(h http.Handler) {
	r.webHandler, r.webLn = h, newHandoff()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	r.webSrv = &http.Server{
		Handler:           heard(r.leaves(r.bounded(h))),
		Protocols:         protocols,
		ReadHeaderTimeout: r.cfg.SetupTimeout,
		IdleTimeout:       r.cfg.IdleTimeout,
		MaxHeaderBytes:    2 * r.cfg.MaxHeaderList, // beyond that it answers by itself, with a line of text, and hangs up
		ConnState:         r.webConnState,
		ConnContext:       withCarrier,
		ErrorLog:          slog.NewLogLogger(r.cfg.Log.Handler(), slog.LevelDebug),
	}
	r.wg.Go(func() { _ = r.webSrv.Serve(r.webLn) })
}

// bounded answers requests whose header list is too long.
func (r *Relay) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if listSize(req) <= r.cfg.MaxHeaderList {
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

// listSize is about what a request's header list would have over HTTP/2 (RFC 9113 §6.5.2).
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

// RequestCost is about how many bytes a request over HTTP/1.1 takes besides its body.
func RequestCost(req *http.Request) int64 { return int64(webCost + webHeads*listSize(req)) }

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
