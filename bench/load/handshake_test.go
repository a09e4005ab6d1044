package load_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/capgate/capgate/bench/load"
)

func tlsServer(t *testing.T, http2 bool) netip.AddrPort {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.EnableHTTP2 = http2
	server.StartTLS()
	t.Cleanup(server.Close)
	return netip.MustParseAddrPort(server.Listener.Addr().String())
}

// TestHandshakes: handshakes are counted, and the result has the negotiated parameters.
func TestHandshakes(t *testing.T) {
	t.Parallel()
	res, err := runUntil(load.Config{Target: tlsServer(t, true), Mode: load.Handshakes, Conns: 2, Window: window},
		func(res load.Result) bool { return res.Calls > 0 })
	if err != nil || res.Errors > 0 || res.Calls == 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	if !strings.HasPrefix(res.Negotiated, "TLS 1.3, X25519, TLS_") {
		t.Errorf("the connections negotiated %q", res.Negotiated)
	}
}

// TestHandshakesNeedHTTP2: every handshake with a server without HTTP/2 fails, because a handshake ends with the
// server's SETTINGS.
func TestHandshakesNeedHTTP2(t *testing.T) {
	t.Parallel()
	res, err := runUntil(load.Config{Target: tlsServer(t, false), Mode: load.Handshakes, Window: window},
		func(res load.Result) bool { return res.Errors > 0 })
	if err != nil || res.Calls > 0 || res.Errors == 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

// Open loops of JSON requests use connections that are free, and a flood counts rejected requests apart.
func TestJSONOpen(t *testing.T) {
	t.Parallel()
	for _, http1 := range []bool{true, false} {
		cfg := jsonOver(http1, invokePath, `{"tool_name":"reply_1_10"}`)
		cfg.Target, cfg.Mode, cfg.Rate, cfg.Conns = viaGRPCGateway(t), load.Open, 200, 8
		if res, err := load.Run(cfg); err != nil || res.Errors > 0 || res.Total == 0 {
			t.Errorf("HTTP/1.1 %v: %+v, %v", http1, res, err)
		}
		cfg.JSON.Path, cfg.Flood = "/nowhere", true
		if res, err := load.Run(cfg); err != nil || res.Errors > 0 || res.Refused == 0 {
			t.Errorf("HTTP/1.1 %v: %+v, %v", http1, res, err)
		}
	}
}
