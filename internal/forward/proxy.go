package forward

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// The values of Settings.Proxy.
const (
	ProxyNone        = "none"        // gateways are dialled directly
	ProxyEnvironment = "environment" // by the proxy of HTTPS_PROXY or HTTP_PROXY, unless NO_PROXY names the gateway
)

// maxProxyAnswer bounds a proxy's answer to CONNECT, in bytes.
const maxProxyAnswer = 16 << 10

// proxiesOf reads the proxies of an environment.
func proxiesOf(getenv func(string) string) httpproxy.Config {
	of := func(upper, lower string) string { return cmp.Or(getenv(upper), getenv(lower)) }
	return httpproxy.Config{HTTPProxy: of("HTTP_PROXY", "http_proxy"), HTTPSProxy: of("HTTPS_PROXY", "https_proxy"),
		NoProxy: of("NO_PROXY", "no_proxy")}
}

// proxyOf returns the proxy of an endpoint; nil if it has none. Errors have no part of the proxy's URL, which may have
// a password.
func (s Settings) proxyOf(e endpoint) (*url.URL, error) {
	switch s.Proxy {
	case "", ProxyNone:
		return nil, nil
	case ProxyEnvironment:
	default:
		return nil, wrong(EnvProxy, "%.64q: want none or environment", s.Proxy)
	}
	scheme, set := "http", s.proxies.HTTPProxy
	if e.secure {
		scheme, set = "https", s.proxies.HTTPSProxy
	}
	if !isProxyURL(set) {
		return nil, wrong(EnvProxy, "the environment's proxy is not a URL")
	}
	proxy, err := s.proxies.ProxyFunc()(&url.URL{Scheme: scheme, Host: e.authority()})
	switch {
	case err != nil:
		return nil, wrong(EnvProxy, "the environment's proxy cannot be used")
	case proxy != nil && proxy.Scheme != "http":
		return nil, wrong(EnvProxy, "the environment's proxy has the scheme %s; want http", proxy.Scheme)
	}
	return proxy, nil
}

// isProxyURL reports whether a text can be read as a proxy: a URL, or host and port. httpproxy ignores what is neither.
func isProxyURL(text string) bool {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	_, err := url.Parse(text)
	return err == nil
}

// dialProxy connects to the target by its proxy (RFC 9110 §9.3.6).
func (t *target) dialProxy(ctx context.Context) (net.Conn, error) {
	at := net.JoinHostPort(t.proxy.Hostname(), cmp.Or(t.proxy.Port(), "80"))
	nc, err := t.dialer.DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	if until, ok := ctx.Deadline(); ok {
		_ = nc.SetDeadline(until) // an error of the connection shows below
	}
	c := &tunnel{Conn: nc, limit: &io.LimitedReader{R: nc, N: maxProxyAnswer}}
	c.reader = bufio.NewReader(c.limit)
	if err := t.open(c); err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("proxy %s: %w", at, err)
	}
	c.limit.N = math.MaxInt64
	_ = nc.SetDeadline(time.Time{})
	return c, nil
}

// open asks the proxy to connect to the target.
func (t *target) open(c *tunnel) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: t.authority()}, Host: t.authority(),
		Header: http.Header{}}
	if by := t.proxy.User; by != nil {
		password, _ := by.Password()
		req.Header.Set("Proxy-Authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(by.Username()+":"+password)))
	}
	if err := req.Write(c.Conn); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.reader, req)
	if err != nil {
		return fmt.Errorf("its answer to CONNECT: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("it answers CONNECT %s with %d", t.authority(), resp.StatusCode)
	}
	return nil
}

// tunnel is a connection through a proxy. Bytes after the proxy's response are read first.
type tunnel struct {
	net.Conn
	limit  *io.LimitedReader
	reader *bufio.Reader
}

// Read implements net.Conn.
func (c *tunnel) Read(p []byte) (int, error) { return c.reader.Read(p) }
