package gatewaytest

import (
	"net"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// Script responds to one request, frame by frame. It returns false to end the connection.
type Script func(c *rawhttp2.Conn, stream uint32) bool

// Scripted returns a backend that responds to each complete request according to a script.
func Scripted(t testing.TB, script Script) (addr string) {
	t.Helper()
	ln := check.Listen(t)
	var running sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	serve := func(nc net.Conn) {
		defer func() { _ = nc.Close() }()
		c := rawhttp2.New(nc)
		for err := c.Welcome(); err == nil; {
			var f rawhttp2.Frame
			f, err = c.Wait(func(f rawhttp2.Frame) bool {
				return f.Type == rawhttp2.TypeData && f.Has(rawhttp2.EndStream)
			})
			if err == nil && !script(c, f.Stream) {
				return
			}
		}
	}
	running.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[nc] = true
			mu.Unlock()
			running.Go(func() { serve(nc) })
		}
	})
	check.Cleanup(t, func() {
		_ = ln.Close()
		mu.Lock()
		for nc := range open {
			_ = nc.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return ln.Addr().String()
}
