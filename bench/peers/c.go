package peers

import (
	"fmt"
	"net/netip"
	"path/filepath"
)

// streams is the stream limit per connection at peers that need one.
const streams = 10000

// HAProxyTCP relays bytes with splice. It is the floor.
func HAProxyTCP() Spec {
	return Spec{Name: "tcp", Title: "TCP relay (haproxy)", Binary: "haproxy", Package: "haproxy", Bytes: true,
		build: func(env Env, dir string, listen netip.AddrPort) (command, error) {
			return haproxy(dir, fmt.Sprintf(`
  mode tcp
  option splice-auto
listen relay
  bind %s
  server backend %s
`, listen, env.Backend)), nil
		}}
}

// HAProxy is haproxy with HTTP/2 on both sides.
func HAProxy() Spec {
	return Spec{Name: "haproxy", Title: "haproxy h2", Binary: "haproxy", Package: "haproxy", Secure: true,
		build: func(env Env, dir string, listen netip.AddrPort) (command, error) {
			proto := "proto h2"
			if env.TLS {
				proto = "ssl crt " + filepath.Join(dir, bothFile) + " alpn h2 ciphersuites TLS_AES_128_GCM_SHA256"
			}
			return haproxy(dir, fmt.Sprintf(`
  mode http
  http-reuse always
  timeout http-keep-alive 1h
frontend clients
  bind %s %s
  default_backend capability
backend capability
  server backend %s proto h2
`, listen, proto, env.Backend)), nil
		}}
}

func haproxy(dir, sections string) command {
	return command{
		path: "haproxy", args: []string{"-db", "-f", filepath.Join(dir, "haproxy.cfg")},
		files: map[string]string{"haproxy.cfg": fmt.Sprintf(`global
  nbthread 1
  maxconn %d
  no strict-limits
  tune.h2.max-concurrent-streams %d
defaults
  timeout connect 5s
  timeout client 1h
  timeout server 1h
%s`, 2*streams, streams, sections[1:])},
	}
}

// NGHTTPX is nghttp2's proxy.
func NGHTTPX() Spec {
	return Spec{Name: "nghttpx", Title: "nghttpx", Binary: "nghttpx", Package: "nghttp2-proxy", Secure: true,
		build: func(env Env, dir string, listen netip.AddrPort) (command, error) {
			secure, files := ";no-tls", []string(nil)
			if env.TLS {
				secure, files = "", []string{filepath.Join(dir, keyFile), filepath.Join(dir, certFile)}
			}
			return command{path: "nghttpx", args: append([]string{
				"--conf=/dev/null", "--single-process", "--workers=1",
				fmt.Sprintf("--frontend=%s,%d%s", listen.Addr(), listen.Port(), secure),
				fmt.Sprintf("--backend=%s,%d;;proto=h2", env.Backend.Addr(), env.Backend.Port()),
				fmt.Sprintf("--frontend-http2-max-concurrent-streams=%d", streams),
				fmt.Sprintf("--backend-http2-max-concurrent-streams=%d", streams),
				"--frontend-http2-read-timeout=1h", "--stream-read-timeout=1h", "--backend-read-timeout=1h",
				"--accesslog-file=/dev/null", "--log-level=ERROR", "--pid-file=nghttpx.pid",
				fmt.Sprintf("--worker-frontend-connections=%d", 2*streams),
			}, files...)}, nil
		}}
}

// Nginx is nginx's grpc_pass.
func Nginx() Spec {
	return Spec{Name: "nginx", Title: "nginx", Binary: "nginx", Package: "nginx", Secure: true,
		build: func(env Env, dir string, listen netip.AddrPort) (command, error) {
			secure := ""
			if env.TLS {
				secure = fmt.Sprintf(nginxTLS,
					filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
			}
			return command{
				path: "nginx", args: []string{"-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr"},
				files: map[string]string{"nginx.conf": fmt.Sprintf(nginxConf, streams, env.Backend, listen, secure)},
			}, nil
		}}
}

// nginxTLS is inserted after http2. Its arguments are the files of a certificate and its key.
const nginxTLS = ` ssl;
    ssl_protocols TLSv1.3;
    ssl_certificate %s;
    ssl_certificate_key %s`

// nginxConf gives nginx an upstream connection for each call in flight. With a lower keepalive_requests, it would close
// connections every thousand calls.
const nginxConf = `daemon off;
master_process off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid nginx.pid;
error_log stderr error;
events { worker_connections 20000; }
http {
  access_log off;
  keepalive_timeout 1h;
  keepalive_requests 1000000000;
  http2_max_concurrent_streams %d;
  client_max_body_size 0;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  upstream capability {
    server %s;
    keepalive 1024;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
  }
  server {
    listen %s http2%s;
    location / {
      grpc_pass grpc://capability;
      grpc_read_timeout 1h;
      grpc_send_timeout 1h;
    }
  }
}
`
