package relay

import (
	"context"
	"sync"
	"time"
)

// Shutdown stops gracefully: it accepts no new connections, makes clients move elsewhere, and lets streams finish
// until ctx ends; the remaining ones receive the Handler's status for Draining. It returns ctx's error if any stream
// was cut off. When Shutdown returns, all goroutines and connections of the relay have ended.
func (r *Relay) Shutdown(ctx context.Context) error {
	r.accept.StopListening()
	err := r.drain(ctx)
	if err == nil {
		err = r.accept.ShutdownHTTP1(ctx)
	}
	if err == nil {
		err = r.awaitLocals(ctx)
	}
	if err != nil {
		r.cutOff()
	}
	r.Close()
	return err
}

// Close ends all streams and connections at once, and waits until everything has ended.
func (r *Relay) Close() {
	r.accept.Close()
	r.cancel()
	for _, sh := range r.shards {
		sh.closeLocals()
		sh.each(func(c *conn) { c.lost(ErrClosed) })
		sh.closeRunQueue()
		sh.workers.close()
	}
	r.accept.Wait()
	r.wg.Wait()
	for _, sh := range r.shards {
		sh.timer.Stop()
		sh.closeStack()
	}
}

// drain drains all client connections, and waits until they have ended.
func (r *Relay) drain(ctx context.Context) error { return r.await(ctx, (*conn).drain) }

// cutOff ends every call with the Handler's status for Draining, and gives clients time to read it: unread bytes in a
// socket are lost when it is closed.
func (r *Relay) cutOff() {
	for _, sh := range r.shards {
		sh.cutOffLocals()
	}
	r.awaitWeb()
	ctx, cancel := context.WithTimeout(r.ctx, time.Duration(lingerTime))
	defer cancel()
	_ = r.await(ctx, (*conn).cutOff)
}

// cutOff ends the connection's calls with the Handler's status for Draining, and then the connection.
func (c *conn) cutOff() {
	c.streams.each(func(h *half) { h.stream.fail(Draining) })
	if !c.ending {
		c.end(Draining, ErrClosed)
	}
}

// awaitWeb lets the http.Handler respond to requests whose calls were cut off: a client whose connection ends without
// a response may repeat a call that ran. gRPC streams end meanwhile.
func (r *Relay) awaitWeb() {
	ctx, cancel := context.WithTimeout(r.ctx, time.Duration(lingerTime))
	defer cancel()
	var old sync.WaitGroup
	old.Go(func() { _ = r.accept.ShutdownHTTP1(ctx) })
	_ = r.await(ctx, func(c *conn) {
		web := false
		c.streams.each(func(h *half) {
			if web = web || !h.stream.grpc; h.stream.grpc {
				h.stream.fail(Draining)
			}
		})
		if !web && !c.ending {
			c.end(Draining, ErrClosed)
		}
	})
	old.Wait()
}

// await calls visit for all client connections, repeatedly after each end of one, until none is left.
func (r *Relay) await(ctx context.Context, visit func(*conn)) error {
	for {
		left := 0
		r.eachClient(func(c *conn) {
			visit(c)
			left++
		})
		if left == 0 {
			return nil
		}
		select {
		case <-r.gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *Relay) eachClient(f func(*conn)) {
	for _, sh := range r.shards {
		sh.each(func(c *conn) {
			if c.pool == nil && !c.closed {
				f(c)
			}
		})
	}
}

// each visits the shard's connections in one turn.
func (sh *shard) each(visit func(*conn)) {
	sh.enter()
	defer sh.leave()
	for c := range sh.conns {
		visit(c)
	}
}
