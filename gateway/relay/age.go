package relay

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// How a client is made to connect again, so that its next connection may reach another replica.

// agePart is the part of Config.MaxAge by which ages differ: clients that connected together do not return together.
const agePart = 10

// spread returns Config.MaxAge for one connection; 0: no limit.
func (r *Relay) spread() time.Duration {
	if r.cfg.MaxAge <= 0 {
		return 0
	}
	part := r.cfg.MaxAge / agePart
	return r.cfg.MaxAge - part + rand.N(2*part+1) //nolint:gosec // nothing secret
}

// lifetime returns when a connection that begins now is to be replaced, on the shard's clock; 0: never.
func (r *Relay) lifetime(now int64) int64 {
	if age := r.spread(); age > 0 {
		return now + int64(age)
	}
	return 0
}

// move has the client go elsewhere, and ends the calls that are left after Config.Grace.
func (c *conn) move() {
	if c.drainPhase != notDraining {
		c.moves = 0
		c.cutOff()
		return
	}
	if c.moves = 0; c.sh.relay.cfg.Grace > 0 {
		c.moves = c.sh.now + int64(c.sh.relay.cfg.Grace)
	}
	c.drain()
}

// Move has clients over HTTP/2 go elsewhere whose connections are older than age. Their calls may finish. New
// connections are accepted.
func (r *Relay) Move(age time.Duration) {
	r.eachClient(func(c *conn) {
		if c.settled && c.drainPhase == notDraining && c.sh.now-c.began > int64(age) {
			c.move()
			c.setTimer()
		}
	})
}

// leaves has responses over HTTP/1.1 end their connections when the client is to go elsewhere.
func (r *Relay) leaves(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c, _ := req.Context().Value(carrierKey{}).(*carrier)
		last := &lastWriter{ResponseWriter: w, relay: r, carrier: c}
		next.ServeHTTP(last, req)
		last.decide()
	})
}

// leaving reports whether the client of a response over HTTP/1.1 is to leave.
func (r *Relay) leaving(c *carrier) bool {
	return c != nil && !c.until.IsZero() && !time.Now().Before(c.until) ||
		r.cfg.Leaving != nil && r.cfg.Leaving() || r.isStopping()
}

// lastWriter decides as late as possible whether a response is the last one of its connection: as its headers are
// written.
type lastWriter struct {
	http.ResponseWriter
	relay   *Relay
	carrier *carrier
	decided bool
}

func (w *lastWriter) decide() {
	if w.decided {
		return
	}
	if w.decided = true; w.relay.leaving(w.carrier) {
		w.Header().Set("Connection", "close")
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *lastWriter) WriteHeader(code int) {
	if code >= http.StatusOK || code == http.StatusSwitchingProtocols {
		w.decide()
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements io.Writer.
func (w *lastWriter) Write(p []byte) (int, error) {
	w.decide()
	return w.ResponseWriter.Write(p) //nolint:wrapcheck // the response's own
}

// Flush implements http.Flusher.
func (w *lastWriter) Flush() { _ = w.FlushError() }

// FlushError is for http.ResponseController.
func (w *lastWriter) FlushError() error {
	w.decide()
	return http.NewResponseController(w.ResponseWriter).Flush() //nolint:wrapcheck // the response's own
}

// Unwrap is for http.ResponseController.
func (w *lastWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
