package upstream_test

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/engine/probe"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/grpcservice"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/grpctest"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const id = "remote" // of the only fleet

// front is an address whose connections go to a server, or meet a fault.
type front struct {
	net.Listener
	to string // address of the server

	mu    sync.Mutex
	fault func(net.Conn) // nil means none
	conns map[net.Conn]bool
}

func newFront(t *testing.T, to string) *front {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	f := &front{Listener: ln, to: to, conns: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { f.serve(conn) })
		}
	})
	check.Cleanup(t, func() {
		_ = ln.Close()
		f.become(nil)
		serving.Wait()
	})
	return f
}

func (f *front) serve(conn net.Conn) {
	f.mu.Lock()
	f.conns[conn] = true
	fault := f.fault
	f.mu.Unlock()
	defer func() {
		_ = conn.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.conns, conn)
	}()
	if fault != nil {
		fault(conn)
		return
	}
	pipeTo(f.to)(conn)
}

// pipeTo passes a connection on to an address.
func pipeTo(addr string) func(net.Conn) {
	return func(conn net.Conn) {
		to, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		var back sync.WaitGroup
		back.Go(func() {
			_, _ = io.Copy(conn, to)
			_ = conn.Close()
		})
		_, _ = io.Copy(to, conn)
		_ = to.Close()
		back.Wait()
	}
}

// become ends all connections, and gives later ones a fault; nil means none.
func (f *front) become(fault func(net.Conn)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
	for conn := range f.conns {
		_ = conn.Close()
	}
}

// answers returns the fault that answers requests, over HTTP/1 or HTTP/2 in cleartext.
func answers(t *testing.T, handler http.HandlerFunc) func(net.Conn) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	check.Cleanup(t, s.Close)
	return pipeTo(s.Listener.Addr().String())
}

// faults returns what may be at the address of a backend in its place.
func faults(t *testing.T) map[string]func(net.Conn) {
	t.Helper()
	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	secure.StartTLS()
	check.Cleanup(t, secure.Close)
	status := func(code int) func(net.Conn) {
		return answers(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>no", code) })
	}
	hang := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	return map[string]func(net.Conn){
		"reset": func(conn net.Conn) {
			_ = conn.(*net.TCPConn).SetLinger(0) //nolint:forcetypeassert // it listens on TCP
		},
		"closed": func(net.Conn) {},
		"hang":   hang,
		"TLS":    pipeTo(secure.Listener.Addr().String()),
		"401":    status(401), "403": status(403), "404": status(404), "500": status(500), "503": status(503),
		"redirect": answers(t, func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "/x", http.StatusFound)
		}),
		"HTML": answers(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>a page")
		}),
		"HTML of HTTP/1": func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>")
			hang(conn)
		},
		"half an answer": answers(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			_, _ = w.Write([]byte{0, 0, 0, 0, 100, 1})
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}),
	}
}

// all serves each protocol whose backends speak gRPC.
type all struct {
	docpb.UnimplementedCapabilityServer
	parallaxpb.UnimplementedClientServiceServer
}

func (all) Healthcheck(context.Context, *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	return &docpb.HealthResponse{Ready: true}, nil
}

func (all) GetStatus(context.Context, *parallaxpb.StatusRequest) (*parallaxpb.StatusResponse, error) {
	return &parallaxpb.StatusResponse{}, nil
}

// TestStateOfBackends: a backend of each protocol over gRPC is down while nothing, or something else, answers at its
// address, and up again afterwards. MCP backends have a similar test.
func TestStateOfBackends(t *testing.T) {
	t.Parallel()
	server := grpctest.Start(t, grpctest.Options{Register: func(r grpc.ServiceRegistrar) {
		docpb.RegisterCapabilityServer(r, all{})
		parallaxpb.RegisterClientServiceServer(r, all{})
	}})
	services := grpcservice.Open(upstream.Options{})
	for name, asks := range map[string]health.Question{
		"capability": nil, "gRPC service": services.Probe(id), "OpenParallax": probe.Of(probe.StatusWord),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var addrs, names []string
			fronts := map[string]*front{}
			all := faults(t)
			for fault := range all {
				f := newFront(t, server.Addr)
				fronts[fault] = f
				addrs, names = append(addrs, f.Addr().String()), append(names, fault)
			}
			if asks != nil {
				services.Set([]upstream.Fleet{
					{Capability: id, Backends: addrs,
						Protocol: &grpcservice.Settings{Methods: []string{"demo.v1.Demo/*"}}}})
			}
			g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: id, Backends: addrs,
				Asks:   asks, // a busy machine is slower, but not silent
				Health: health.Config{Interval: 500 * time.Millisecond, Timeout: 5 * time.Second, Fall: 1}}}})
			become := func(up bool) {
				g.WaitHealth(t, id, func(s *health.Snapshot) bool {
					return !slices.ContainsFunc(s.Backends, func(b health.Backend) bool {
						return (b.State == health.Up) != up
					})
				})
			}
			become(true)
			for _, fault := range names {
				fronts[fault].become(all[fault])
			}
			become(false)
			g.WaitHealth(t, id, func(s *health.Snapshot) bool {
				for i, b := range s.Backends {
					if b.Reason == "" {
						t.Errorf("%s has no reason", names[i])
					}
				}
				return true
			})
			for _, f := range fronts {
				f.become(nil)
			}
			become(true)
		})
	}
}

// TestReasonsOfBackends: the state of a backend of another kind says what is there, and what to write.
func TestReasonsOfBackends(t *testing.T) {
	t.Parallel()
	plain := grpctest.Start(t, grpctest.Options{})
	secure := httptest.NewTLSServer(nil)
	check.Cleanup(t, secure.Close)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	web := httptest.NewServer(nil)
	check.Cleanup(t, web.Close)
	services := grpcservice.Open(upstream.Options{})
	services.Set([]upstream.Fleet{{Capability: id, Backends: []string{plain.Addr},
		Protocol: &grpcservice.Settings{Methods: []string{"demo.v2.Demo/*"}}}})
	for name, c := range map[string]struct {
		addr, want string
		asks       health.Question
	}{
		"a gRPC service": {plain.Addr,
			"without a capability service: demo.v1.Demo is not one; if its methods are tools, set protocol: grpc", nil},
		"another package": {plain.Addr,
			"has no service demo.v2.Demo, which grpc_service.methods lists; it has demo.v1.Demo", services.Probe(id)},
		"an MCP server": {web.Listener.Addr().String(),
			"speaks HTTP/1 and not gRPC; for an MCP server set protocol: mcp", nil},
		"an MCP server, too": {web.Listener.Addr().String(), "speaks HTTP/1", services.Probe(id)},
		"TLS":                {secure.Listener.Addr().String(), "speaks TLS; set tls", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: id,
				Backends: []string{c.addr}, Asks: c.asks}}})
			var reason string
			g.WaitHealth(t, id, func(s *health.Snapshot) bool {
				reason = s.Backends[0].Reason
				return s.Backends[0].State == health.Down
			})
			if !strings.Contains(reason, c.want) {
				t.Errorf("%q, want %q", reason, c.want)
			}
		})
	}
}

// TestServicesOfAFleet: a backend is up that has a service of its fleet alone, as an agent of A2A does.
func TestServicesOfAFleet(t *testing.T) {
	t.Parallel()
	server := grpctest.Start(t, grpctest.Options{})
	for name, fleet := range map[string]gatewaytest.Fleet{
		"services": {Services: []string{"demo.v1.Demo"}},
		"methods":  {Methods: []string{"demo.v1.Demo/*"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fleet.Capability, fleet.Backends = id, []string{server.Addr}
			g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{fleet}})
			g.WaitHealth(t, id, func(s *health.Snapshot) bool { return s.Backends[0].State == health.Up })
		})
	}
}
