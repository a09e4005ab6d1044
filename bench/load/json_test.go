package load_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/capgate/capgate/bench/backend"
	"github.com/capgate/capgate/bench/jsonproxy"
	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/internal/testkit/check"
)

// viaGRPCGateway puts a process with grpc-gateway's handlers in front of the backend.
func viaGRPCGateway(t *testing.T) netip.AddrPort {
	t.Helper()
	p, err := jsonproxy.New(serve(t, backend.Config{}).String())
	check.Must(t, err)
	return served(t, p)
}

func jsonOver(http1 bool, path, body string) load.Config {
	return load.Config{Mode: load.Closed, Conns: 2, Streams: 4, Window: window,
		JSON: &load.JSON{Path: path, Body: []byte(body), HTTP1: http1}}
}

const invokePath = "/v1/capabilities/weather/invoke"

func TestJSONThroughGRPCGateway(t *testing.T) {
	t.Parallel()
	for _, http1 := range []bool{true, false} {
		for _, size := range []int{1, 1024, 200 << 10} {
			t.Run(fmt.Sprintf("HTTP/1.1 %v, %d bytes", http1, size), func(t *testing.T) {
				t.Parallel()
				cfg := jsonOver(http1, invokePath, fmt.Sprintf(`{"tool_name":"reply_1_%d"}`, size))
				cfg.Target = viaGRPCGateway(t)
				res, err := load.Run(cfg)
				if err != nil || res.Errors > 0 || res.Total == 0 {
					t.Fatalf("%d requests, %d errors: %s, %v", res.Total, res.Errors, res.Problem, err)
				}
				if res.Bytes < res.Calls*int64(size) {
					t.Errorf("%d bytes for %d responses of %d and more", res.Bytes, res.Calls, size)
				}
			})
		}
	}
}

// Errors are counted, and named with their status.
func TestJSONErrors(t *testing.T) {
	t.Parallel()
	for _, http1 := range []bool{true, false} {
		cfg := jsonOver(http1, "/nowhere", "{}")
		cfg.Target = viaGRPCGateway(t)
		res, err := load.Run(cfg)
		said := res.Problem
		if err != nil { // too many errors
			said = err.Error()
		}
		if res.Calls > 0 || !strings.Contains(said, "404") {
			t.Errorf("HTTP/1.1 %v: %+v, %v; want an error that says 404; said %+v", http1, res, err, said)
		}
	}
}

// Responses come in chunks, in several writes, or with a length.
func TestHTTP1Responses(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"a length": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1000)) },
		"nothing":  func(http.ResponseWriter, *http.Request) {},
		"chunks": func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				_, _ = w.Write(make([]byte, 5000))
				_ = http.NewResponseController(w).Flush()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close)
			cfg := jsonOver(true, "/", "{}")
			cfg.Target = netip.MustParseAddrPort(server.Listener.Addr().String())
			if res, err := load.Run(cfg); err != nil || res.Errors > 0 || res.Total == 0 {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
}
