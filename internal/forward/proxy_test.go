package forward_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/capgate/capgate/internal/forward"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

const proxyToken = "0123456789abcdef"

// egress is a proxy as Selu's: CONNECT with a password, to what it permits.
type egress struct {
	ln      net.Listener
	to      string // the address behind every name; "": nothing is permitted
	mu      sync.Mutex
	targets []string
}

// newEgress starts a proxy. It answers CONNECT and passes the first bytes of the target in one packet.
func newEgress(t *testing.T, to string) *egress {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	e := &egress{ln: ln, to: to}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go e.serve(nc)
		}
	}()
	return e
}

func (e *egress) serve(nc net.Conn) {
	defer nc.Close()
	reader := bufio.NewReader(nc)
	req, err := http.ReadRequest(reader)
	if err != nil {
		return
	}
	e.mu.Lock()
	e.targets = append(e.targets, req.Method+" "+req.Host)
	e.mu.Unlock()
	req.Header.Set("Authorization", req.Header.Get("Proxy-Authorization"))
	switch user, password, _ := req.BasicAuth(); {
	case user != "selu" || password != proxyToken:
		_, _ = io.WriteString(nc, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
		return
	case e.to == "":
		_, _ = io.WriteString(nc, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
		return
	}
	up, err := net.Dial("tcp", e.to)
	if err != nil {
		return
	}
	defer up.Close()
	first := make([]byte, 4096)
	n := 0
	if !strings.HasSuffix(req.Host, ":443") { // a gateway in cleartext speaks first
		if n, err = up.Read(first); err != nil {
			return
		}
	}
	if _, err := nc.Write(append([]byte("HTTP/1.1 200 OK\r\n\r\n"), first[:n]...)); err != nil {
		return
	}
	go func() { _, _ = io.Copy(up, reader); _ = up.Close() }()
	_, _ = io.Copy(nc, up)
}

func (e *egress) asked() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.targets, ", ")
}

// environment returns the settings of a container of Selu with a proxy.
func environment(vars map[string]string) forward.Settings {
	vars["SELU_CAPABILITY_ID"] = "weather"
	return forward.FromEnvironment(func(name string) string { return vars[name] })
}

// TestProxy: a gateway that a container cannot reach itself is reached by the proxy of its environment, with TLS and
// without.
func TestProxy(t *testing.T) {
	t.Parallel()
	t.Run("cleartext", func(t *testing.T) {
		t.Parallel()
		_, backend, _ := gateway(t)
		e := newEgress(t, backend.Addr)
		w := run(t, environment(map[string]string{"CAPGATE_PROXY": "environment",
			"http_proxy":  "http://selu:" + proxyToken + "@" + e.ln.Addr().String(),
			"CAPGATE_URL": "http://gateway.test:80"}))
		w.ok(t, gatewaytest.Echo)
		long := []byte(`"` + strings.Repeat("a", 64<<10) + `"`)
		resp, err := w.client.Invoke(t.Context(), &livepb.InvokeRequest{ToolName: gatewaytest.Echo, ArgsJson: long})
		if err != nil || !bytes.Contains(resp.GetResultJson(), long[1:len(long)-1]) {
			t.Errorf("%d bytes, %v", len(resp.GetResultJson()), err)
		}
		if got := e.asked(); got != "CONNECT gateway.test:80" {
			t.Errorf("the proxy was asked for %s", got)
		}
	})
	t.Run("TLS", func(t *testing.T) {
		t.Parallel()
		authority := certtest.New(t)
		ca := filepath.Join(t.TempDir(), "ca.pem")
		check.Must(t, os.WriteFile(ca, []byte(authority.PEM), 0o600))
		cert := authority.Server(t, net.IPv4(192, 0, 2, 1))
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		check.Must(t, err)
		s := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}})))
		livepb.RegisterCapabilityServer(s, healthy{})
		go func() { _ = s.Serve(ln) }()
		t.Cleanup(s.Stop)
		e := newEgress(t, ln.Addr().String())
		w := run(t, environment(map[string]string{"CAPGATE_PROXY": "environment", "CAPGATE_CA_FILE": ca,
			"HTTPS_PROXY": "http://selu:" + proxyToken + "@" + e.ln.Addr().String(),
			"HTTP_PROXY":  refused(t), "CAPGATE_URL": "https://192.0.2.1"}))
		if _, err := w.client.Healthcheck(t.Context(), &livepb.HealthRequest{}); err != nil {
			t.Error(err)
		}
		if got := e.asked(); got != "CONNECT 192.0.2.1:443" {
			t.Errorf("the proxy was asked for %s", got)
		}
	})
}

// healthy is a capability that answers its health check.
type healthy struct {
	livepb.UnimplementedCapabilityServer
}

func (healthy) Healthcheck(context.Context, *livepb.HealthRequest) (*livepb.HealthResponse, error) {
	return &livepb.HealthResponse{Ready: true}, nil
}

// TestProxyRefuses: a call that a proxy rejects was not started. The log has the reason, without the proxy's password.
func TestProxyRefuses(t *testing.T) {
	t.Parallel()
	denies := newEgress(t, "").ln.Addr().String()
	for name, test := range map[string]struct{ proxy, log string }{
		"denied":         {"http://selu:" + proxyToken + "@" + denies, "it answers CONNECT gateway.test:443 with 403"},
		"wrong password": {"http://selu:x" + proxyToken + "@" + denies, "it answers CONNECT gateway.test:443 with 407"},
		"gone":           {withToken(refused(t)), "connection refused"},
		"mute":           {withToken(hangsUp(t)), "its answer to CONNECT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := environment(map[string]string{"CAPGATE_PROXY": "environment", "HTTPS_PROXY": test.proxy,
				"CAPGATE_URL": "https://gateway.test"})
			s.Wait = 100 * time.Millisecond
			w := run(t, s)
			if err := w.invoke(t.Context(), gatewaytest.Echo); err == nil || text(err) != notStarted {
				t.Errorf("%v", err)
			}
			w.log.Wait(t, test.log)
			if strings.Contains(w.log.String(), proxyToken) {
				t.Errorf("the log has the password: %s", w.log)
			}
		})
	}
}

// withToken adds the password to a proxy's URL.
func withToken(url string) string {
	return strings.Replace(url, "http://", "http://selu:"+proxyToken+"@", 1)
}

// hangsUp returns a port that takes connections and closes them.
func hangsUp(t *testing.T) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = nc.Read(make([]byte, 1))
			_ = nc.Close()
		}
	}()
	return "http://" + ln.Addr().String()
}

// TestProxySettings: a proxy is used if the settings say so, for the gateways that NO_PROXY does not name.
func TestProxySettings(t *testing.T) {
	t.Parallel()
	proxy := refused(t)
	for _, vars := range map[string]map[string]string{
		"not said": {"HTTP_PROXY": proxy},
		"none":     {"HTTP_PROXY": proxy, "CAPGATE_PROXY": "none"},
		"NO_PROXY": {"HTTP_PROXY": proxy, "CAPGATE_PROXY": "environment", "NO_PROXY": "example.com,127.0.0.1"},
		"no proxy": {"CAPGATE_PROXY": "environment"},
	} {
		_, _, url := gateway(t)
		vars["CAPGATE_URL"] = url
		w := run(t, environment(vars))
		w.ok(t, gatewaytest.Echo)
	}
	for want, vars := range map[string]map[string]string{
		`CAPGATE_PROXY: "yes": want none or environment`: {"CAPGATE_PROXY": "yes"},
		"CAPGATE_PROXY: the environment's proxy has the scheme socks5; want http": {"CAPGATE_PROXY": "environment",
			"HTTP_PROXY": "socks5://selu:" + proxyToken + "@proxy"},
		"CAPGATE_PROXY: the environment's proxy is not a URL": {"CAPGATE_PROXY": "environment",
			"HTTP_PROXY": "http://selu:" + proxyToken + "@a b"},
	} {
		vars["CAPGATE_URL"] = "http://gateway.test"
		_, err := forward.Listen(environment(vars), nil)
		if wrong := new(forward.SettingError); !errors.As(err, &wrong) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
