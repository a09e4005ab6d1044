package load

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	"github.com/capgate/capgate/bench/h2"
)

// clientTLS returns the configuration for all servers: TLS 1.3 with X25519, without resumption. The benchmark created
// the certificate itself.
func clientTLS() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13,
		CurvePreferences: []tls.CurveID{tls.X25519}}
}

// handshakes counts connections over TLS. The client's part of a handshake costs about as much as the server's, so only
// the proxy's processor time is meaningful, not the rate.
type handshakes struct {
	cfg *Config

	mu        sync.Mutex
	res       Result
	latencies []time.Duration
	measuring bool
}

// runHandshakes runs one window, in which each of Conns goroutines opens one connection at a time.
func runHandshakes(cfg Config) (Result, error) {
	h := &handshakes{cfg: &cfg}
	ctx, stop := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	for range cfg.Conns {
		workers.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				agreed, err := h.connect(ctx)
				h.done(ctx, agreed, time.Since(began), err)
			}
		})
	}
	time.Sleep(cfg.Warm)
	err := h.measure()
	stop()
	workers.Wait()
	return h.res, err
}

// connect opens a connection and waits for the first byte of HTTP/2, which the server sends after its part of the
// handshake.
func (h *handshakes) connect(ctx context.Context) (string, error) {
	dialer := tls.Dialer{Config: clientTLS()}
	conn, err := dialer.DialContext(ctx, "tcp", h.cfg.Target.String())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	const emptySettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte(h2.Preface + emptySettings)); err != nil {
		return "", err
	}
	var first [1]byte
	if _, err := conn.Read(first[:]); err != nil {
		return "", fmt.Errorf("no SETTINGS received: %w", err)
	}
	state := conn.(*tls.Conn).ConnectionState()
	return fmt.Sprintf("%s, %v, %s, certificate %v", tls.VersionName(state.Version), state.CurveID,
		tls.CipherSuiteName(state.CipherSuite), state.PeerCertificates[0].PublicKeyAlgorithm), nil
}

func (h *handshakes) done(ctx context.Context, agreed string, took time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.res.Total++
		h.res.Negotiated = agreed
		if h.measuring {
			h.res.Calls++
			h.latencies = append(h.latencies, took)
		}
	case ctx.Err() == nil:
		h.res.Errors++
		h.res.Problem = err.Error()
	}
}

func (h *handshakes) measure() error {
	before, err := h.cfg.usage()
	if err != nil {
		return err
	}
	start := time.Now()
	h.count(true)
	time.Sleep(h.cfg.Window)
	h.count(false)
	after, err := h.cfg.usage()
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.res.Seconds = time.Since(start).Seconds()
	h.res.used(before, after)
	h.res.waited(h.latencies)
	return nil
}

// count sets whether completed handshakes are counted.
func (h *handshakes) count(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.measuring = on
}
