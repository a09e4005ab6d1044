package relay_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// site returns an ordinary http.Handler.
func site() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // HTTP/1.1 is not full duplex
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(body)
	})
	mux.HandleFunc("GET /size/{n}", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.PathValue("n"))
		w.Header().Set("Content-Length", strconv.Itoa(n))
		w.Header().Set("X-Proto", r.Proto)
		_, _ = w.Write(pattern(0, n))
	})
	mux.HandleFunc("POST /early", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden) // the body is not read
		_, _ = w.Write([]byte("no"))
	})
	mux.HandleFunc("GET /hints", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
	})
	mux.HandleFunc("GET /abort", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(pattern(0, 100_000))
		panic(http.ErrAbortHandler)
	})
	return mux
}

// webClients returns clients for HTTP/1.1 and HTTP/2, in cleartext or over TLS.
func webClients(t testing.TB, cfg *tls.Config) map[string]*http.Client {
	clients := map[string]*http.Client{}
	for _, name := range []string{"HTTP/1.1", "HTTP/2.0"} {
		p := new(http.Protocols)
		p.SetHTTP1(name == "HTTP/1.1")
		p.SetHTTP2(name == "HTTP/2.0" && cfg != nil)
		p.SetUnencryptedHTTP2(name == "HTTP/2.0" && cfg == nil)
		tr := &http.Transport{Protocols: p, TLSClientConfig: cfg.Clone()} // the transport changes its configuration
		check.Cleanup(t, tr.CloseIdleConnections)
		clients[name] = &http.Client{Transport: tr, Timeout: 20 * time.Second}
	}
	return clients
}

// TestWeb: HTTP requests of every version reach the http.Handler, beside gRPC on the same port.
func TestWeb(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := tlsConfigs(t)
	for _, scheme := range []string{"http", "https"} {
		w := newRelayed(t, relay.Config{})
		cfg := relay.Config{TLS: serverTLS}
		opts, clients := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(clientTLS))},
			webClients(t, clientTLS)
		if scheme == "http" {
			cfg, opts, clients = relay.Config{}, nil, webClients(t, nil)
		}
		h := &forwarder{}
		r, addr := serveRelay(t, cfg, h, site())
		h.to(r.NewUpstream(relay.UpstreamConfig{Addr: w.back.addr}))
		for name, c := range clients {
			t.Run(scheme+" "+name, func(t *testing.T) {
				base := scheme + "://" + addr
				t.Run("echo", func(t *testing.T) { webEcho(t, c, base) })
				t.Run("size", func(t *testing.T) { webSize(t, c, base, name) })
				t.Run("early", func(t *testing.T) { webEarly(t, c, base) })
				t.Run("abort", func(t *testing.T) { webAbort(t, c, base) })
			})
		}
		t.Run(scheme+" grpc", func(t *testing.T) {
			if got, err := unary(w.ctx, dialMaybeTLS(t, addr, opts), "Echo", pattern(0, 3<<20)); err != nil ||
				!bytes.Equal(got, pattern(0, 3<<20)) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
		if u := r.Usage(); u.Streams != 0 {
			t.Errorf("%+v", u)
		}
	}
}

// TestEarlyAnswer: a client that reads only after it has sent its whole request gets the response that was sent
// earlier.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := tlsConfigs(t)
	for name, cfg := range map[string]*tls.Config{"cleartext": nil, "TLS": serverTLS} {
		_, addr := serveRelay(t, relay.Config{TLS: cfg}, &forwarder{}, site())
		nc, err := net.Dial("tcp", addr)
		check.Must(t, err)
		if cfg != nil {
			known := clientTLS.Clone()
			known.ServerName, _, _ = net.SplitHostPort(addr)
			nc = tls.Client(nc, known)
		}
		defer func() { _ = nc.Close() }()
		const size = 40 << 20
		_, err = fmt.Fprintf(nc, "POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size)
		check.Must(t, err)
		if _, err := io.CopyN(patientConn{nc}, zeros{}, size); err != nil {
			t.Errorf("%s: sending: %v", name, err)
		}
		_ = nc.SetDeadline(time.Now().Add(check.Patience))
		if answer, err := io.ReadAll(nc); err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 403 ")) ||
			!bytes.HasSuffix(answer, []byte("no")) {
			t.Errorf("%s: %v, %q", name, err, answer)
		}
	}
}

// patientConn renews its deadline with each write.
type patientConn struct{ net.Conn }

func (c patientConn) Write(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(check.Patience))
	return c.Conn.Write(p)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func dialMaybeTLS(t *testing.T, addr string, opts []grpc.DialOption) *grpc.ClientConn {
	if len(opts) == 0 {
		return dialRaw(t, addr)
	}
	cc, err := clienttest.NewConn(addr, append(opts, grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))...)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = cc.Close() })
	return cc
}

func webEcho(t *testing.T, c *http.Client, base string) {
	for _, size := range []int{0, 1, 100_000, 5 << 20} {
		body := pattern(9, size)
		resp, err := c.Post(base+"/echo", "text/plain", bytes.NewReader(body))
		check.Must(t, err)
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || !bytes.Equal(got, body) || resp.StatusCode != 200 {
			t.Errorf("%d bytes: %d bytes, %s, %v", size, len(got), resp.Status, err)
		}
	}
}

func webSize(t *testing.T, c *http.Client, base, proto string) {
	for _, method := range []string{"GET", "HEAD"} {
		req, err := http.NewRequest(method, base+"/size/300000", nil)
		check.Must(t, err)
		resp, err := c.Do(req)
		check.Must(t, err)
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.ContentLength != 300_000 || resp.Header.Get("X-Proto") != proto {
			t.Errorf("%s: %d, %v, %v", method, resp.ContentLength, resp.Header, err)
		}
		if want := map[string]int{"GET": 300_000}[method]; len(got) != want {
			t.Errorf("%s: %d bytes", method, len(got))
		}
	}
	resp, err := c.Get(base + "/hints")
	check.Must(t, err)
	if _ = resp.Body.Close(); resp.StatusCode != 200 {
		t.Errorf("hints: %s", resp.Status)
	}
	resp, err = c.Get(base + "/nothing")
	check.Must(t, err)
	if _ = resp.Body.Close(); resp.StatusCode != 404 {
		t.Errorf("nothing: %s", resp.Status)
	}
}

// webEarly gets a response before its body is read.
func webEarly(t *testing.T, c *http.Client, base string) {
	body, feed := io.Pipe()
	go func() {
		for {
			if _, err := feed.Write(make([]byte, 10_000)); err != nil {
				return
			}
		}
	}()
	resp, err := c.Post(base+"/early", "text/plain", body)
	_ = feed.Close()
	check.Must(t, err)
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden || string(got) != "no" {
		t.Errorf("%s %q %v", resp.Status, got, err)
	}
}

// webAbort checks that an aborted response does not look complete.
func webAbort(t *testing.T, c *http.Client, base string) {
	resp, err := c.Get(base + "/abort")
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if err == nil {
		t.Error("no error")
	}
}

// TestPipe makes calls over connections that are not sockets.
func TestPipe(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	pipes := servePipes(t, w.Relay)
	cc := dialRaw(t, "passthrough:///relay", grpc.WithContextDialer(pipes.dialAddr))
	w.cc = cc
	for _, size := range []int{0, 1000, 5 << 20} {
		w.everyKind(t, size)
	}
	check.Must(t, cc.Close())
	check.Succeeds(t, "the relay to hold nothing", func() error { return wantUsage(w.Relay, relay.Usage{}) })
	w.Close()
	if _, err := pipes.dial(w.ctx); err == nil {
		t.Error("dialled a closed relay")
	}
}

// pipeListener is a port without sockets.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// servePipes makes a relay serve a pipeListener.
func servePipes(t testing.TB, r *relay.Relay) *pipeListener {
	p := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	var served sync.WaitGroup
	served.Go(func() { _ = r.Serve(p) })
	check.Cleanup(t, func() {
		_ = p.Close()
		check.Ended(t, &served, "the end of the listener")
	})
	return p
}

func (p *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipeListener) dialAddr(ctx context.Context, _ string) (net.Conn, error) { return p.dial(ctx) }

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case nc := <-p.conns:
		return nc, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// TestUpstreamTLS: a backend that requires a client certificate is reached with one.
func TestUpstreamTLS(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := tlsConfigs(t)
	cert, pool := selfSigned(t)
	serverTLS.ClientAuth, serverTLS.ClientCAs = tls.RequireAndVerifyClientCert, pool
	back := newBackend(t, grpc.Creds(credentials.NewTLS(serverTLS)))
	w := newRelayed(t, relay.Config{})
	knows := clientTLS.Clone()
	knows.Certificates = []tls.Certificate{cert}
	w.h.to(w.NewUpstream(relay.UpstreamConfig{Addr: back.addr, TLS: knows}))
	for _, size := range []int{0, 100_000, 3 << 20} {
		w.everyKind(t, size)
	}
	w.h.to(w.NewUpstream(relay.UpstreamConfig{Addr: back.addr, TLS: clientTLS}))
	if _, err := unary(w.ctx, w.cc, "Echo", nil); status.Code(err) != codes.Unavailable {
		t.Errorf("without a certificate: %v", err)
	}
	serverName := clientTLS.Clone()
	serverName.ServerName = "other.test"
	w.h.to(w.NewUpstream(relay.UpstreamConfig{Addr: back.addr, TLS: serverName}))
	if _, err := unary(w.ctx, w.cc, "Echo", nil); status.Code(err) != codes.Unavailable ||
		!strings.HasPrefix(status.Convert(err).Message(), "unsent: ") {
		t.Errorf("another server: %v", err)
	}
}

// TestUpstreamWithoutH2: TLS servers that do not speak HTTP/2 are refused.
func TestUpstreamWithoutH2(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := tlsConfigs(t)
	serverTLS.NextProtos = nil
	ln := tls.NewListener(check.Listen(t), serverTLS)
	srv := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	go func() { _ = srv.Serve(ln) }()
	check.Cleanup(t, func() { _ = srv.Close() })
	w := newRelayed(t, relay.Config{})
	w.h.to(w.NewUpstream(relay.UpstreamConfig{Addr: ln.Addr().String(), TLS: clientTLS}))
	if _, err := unary(w.ctx, w.cc, "Echo", nil); !strings.Contains(fmt.Sprint(err), "ALPN") {
		t.Error(err)
	}
}

// selfSigned returns a client's certificate, and a pool that trusts it.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "relay"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check.Must(t, err)
	cert, err := x509.ParseCertificate(der)
	check.Must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}
