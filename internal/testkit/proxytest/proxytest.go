// Package proxytest runs nginx and haproxy, with their defaults, in front of servers of tests.
package proxytest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/process"
)

// proxies lists the programs with the non-default parts of their configuration: the address of the upstream, and files
// in a directory of the test. %[1]s is the directory and %[2]s the address.
var proxies = map[string]struct { //nolint:gochecknoglobals // a table
	config string
	args   []string
}{
	"nginx": {`daemon off;
master_process off;
pid %[1]s/pid;
events {}
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  server {
    listen unix:%[1]s/socket;
    location / { proxy_pass http://%[2]s; }
  }
}
`, []string{"-e", "stderr", "-c"}},
	"haproxy": {`defaults
  mode http
frontend clients
  bind unix@%[1]s/socket
  default_backend gateway
backend gateway
  server gateway %[2]s
`, []string{"-db", "-f"}},
}

// Each runs a test with each proxy in front of the server at the address upstream. Requests of the client go through
// the proxy, whatever address they name.
func Each(t *testing.T, upstream string, test func(t *testing.T, client *http.Client)) {
	t.Helper()
	for name := range proxies {
		t.Run(name, func(t *testing.T) { test(t, start(t, name, upstream)) })
	}
}

// start runs a proxy until the test ends. It listens on a Unix socket, which no other program uses.
func start(t *testing.T, name, upstream string) *http.Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "proxy") // the path of a socket has at most 107 bytes
	check.Must(t, err)
	check.Cleanup(t, func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "config")
	check.Must(t, os.WriteFile(file, fmt.Appendf(nil, proxies[name].config, dir, upstream), 0o600))
	cmd := exec.Command(name, append(proxies[name].args, file)...)
	cmd.Dir = dir
	process.Start(t, cmd)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "socket"))
	}
	check.Succeeds(t, "a connection to "+name, func() error {
		conn, err := dial(t.Context(), "", "")
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	transport := &http.Transport{DialContext: dial}
	check.Cleanup(t, transport.CloseIdleConnections)
	return &http.Client{Transport: clienttest.Bound(transport)}
}
