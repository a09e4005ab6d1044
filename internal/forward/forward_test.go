package forward_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/forward"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

// TestOnlyTheSettingsSpeakForTheCaller: the gateway gets what the settings say, and nothing that a caller claims.
func TestOnlyTheSettingsSpeakForTheCaller(t *testing.T) {
	t.Parallel()
	c, b, url := gateway(t)
	w := run(t, forward.Settings{URL: url, Key: "cg_a_b", Session: "s-1"})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer stolen", "x-capability-id", "other",
		"x-session-id", "other", "x-user-id", "root", "x-agent-id", "root", "x-api-key", "stolen", "cookie", "a=b",
		"x-capgate-anything", "1", "x-approval-id", "apr_1", "x-forwarded-for", "10.0.0.1", "forwarded", "for=10.0.0.1",
		"x-request-id", "r-1", "traceparent", "00-1-2-03")
	check.Must(t, w.invoke(ctx, gatewaytest.Echo))
	seen := c.Seen()
	if len(seen) != 1 {
		t.Fatalf("%d calls arrived", len(seen))
	}
	got := seen[0].Metadata
	for name, want := range map[string]string{
		"authorization": "Bearer cg_a_b", "x-capability-id": "weather", "x-session-id": "s-1", ":authority": b.Addr,
		"x-request-id": "r-1", "traceparent": "00-1-2-03", "content-type": "application/grpc",
	} {
		if all := got.Get(name); len(all) != 1 || all[0] != want {
			t.Errorf("%s: %q, want %q", name, all, want)
		}
	}
	for name := range got {
		switch name {
		case "authorization", "x-capability-id", "x-session-id", ":authority", "x-request-id", "traceparent",
			"content-type", "user-agent", "grpc-accept-encoding":
		default:
			t.Errorf("the gateway got %s: %q", name, got.Get(name))
		}
	}
}

// TestEveryMethod: all five methods reach the gateway with the key, over TLS and one connection.
func TestEveryMethod(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	check.Must(t, os.WriteFile(ca, []byte(authority.PEM), 0o600))
	cert := authority.Server(t)
	c := gatewaytest.NewCapability("gateway")
	keys, connections := make(chan string, 16), make(chan string, 16)
	record := func(ctx context.Context) {
		md, _ := metadata.FromIncomingContext(ctx)
		keys <- strings.Join(md.Get("authorization"), ",") + " " + strings.Join(md.Get("x-capability-id"), ",")
		from, _ := peer.FromContext(ctx)
		connections <- from.Addr.String()
	}
	b := c.Serve(t, call.Live, grpc.Creds(credentials.NewServerTLSFromCert(&cert)),
		grpc.UnaryInterceptor(func(ctx context.Context, q any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any,
			error) {
			record(ctx)
			return h(ctx, q)
		}), grpc.StreamInterceptor(func(s any, ss grpc.ServerStream, _ *grpc.StreamServerInfo,
			h grpc.StreamHandler) error {
			record(ss.Context())
			return h(s, ss)
		}))
	w := run(t, forward.Settings{URL: "https://" + b.Addr, Key: "cg_a_b", CAFile: ca})
	client := gatewaytest.NewClient(w.conn, call.Live)
	if ready, _, err := client.Healthcheck(t.Context()); err != nil || !ready {
		t.Fatalf("Healthcheck: %v %v", ready, err)
	}
	w.ok(t, gatewaytest.Echo)
	stream, err := w.client.StreamInvoke(t.Context(), &livepb.InvokeRequest{ToolName: gatewaytest.Echo})
	check.Must(t, err)
	for err == nil {
		_, err = stream.Recv()
	}
	if err != io.EOF {
		t.Errorf("StreamInvoke: %v", err)
	}
	file := gatewaytest.File{Name: "a", MIME: "text/plain", Data: bytes.Repeat([]byte("0123456789"), 300_000)}
	up, err := client.Upload(t.Context(), file)
	check.Must(t, err)
	back, err := client.Download(t.Context(), up.ID)
	if err != nil || !bytes.Equal(back.Data, file.Data) {
		t.Errorf("Download: %d bytes, %v", len(back.Data), err)
	}
	first := ""
	for range 5 {
		if got := check.Received(t, keys, "the key"); got != "Bearer cg_a_b weather" {
			t.Errorf("a call has %q", got)
		}
		if got := check.Received(t, connections, "the connection"); first == "" {
			first = got
		} else if got != first {
			t.Errorf("a call comes from %s, another from %s", got, first)
		}
	}
}

// TestOnlyGRPC: other requests are answered with what is wrong.
func TestOnlyGRPC(t *testing.T) {
	t.Parallel()
	_, _, url := gateway(t)
	w := run(t, forward.Settings{URL: url})
	resp, err := clienttest.HTTP.Post("http://"+w.addr+"/v1/capabilities",
		"application/json", nil)
	check.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusUnsupportedMediaType ||
		!strings.Contains(string(body), "takes gRPC") {
		t.Errorf("%s %s %v", resp.Status, body, err)
	}
}

// TestKeyFile: a changed key is used without a restart, also soon after the gateway has rejected the old one.
func TestKeyFile(t *testing.T) {
	t.Parallel()
	good := "cg_new"
	c := gatewaytest.NewCapability("gateway")
	b := c.Serve(t, call.Live, grpc.UnaryInterceptor(
		func(ctx context.Context, q any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			if md, _ := metadata.FromIncomingContext(ctx); md.Get("authorization")[0] != "Bearer "+good {
				return nil, status.Error(codes.Unauthenticated, "no such key")
			}
			return h(ctx, q)
		}))
	file := filepath.Join(t.TempDir(), "key")
	check.Must(t, os.WriteFile(file, []byte("cg_old\n"), 0o600))
	w := run(t, forward.Settings{URL: "http://" + b.Addr, KeyFile: file})
	if err := w.invoke(t.Context(), gatewaytest.Echo); text(err) != "Unauthenticated: no such key" {
		t.Fatalf("got %v", err)
	}
	w.log.Wait(t, "the gateway does not accept the key")
	check.Must(t, os.WriteFile(file, []byte(good), 0o600))
	_ = w.invoke(t.Context(), gatewaytest.Echo) // it may come too early; then it has the file read
	w.log.Wait(t, "key changed")
	w.ok(t, gatewaytest.Echo)
	if strings.Contains(w.log.String(), "cg_") {
		t.Errorf("the log has a key: %s", w.log.String())
	}
}

// TestSettings: each wrong setting is named, with what to do.
func TestSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	check.Must(t, os.WriteFile(empty, []byte("\n"), 0o600))
	good := forward.Settings{Capability: "weather", URL: "http://localhost:8080", Listen: "127.0.0.1:0"}
	for want, change := range map[string]func(*forward.Settings){
		"SELU_CAPABILITY_ID: no capability is named; want its id, as in weather": func(s *forward.Settings) {
			s.Capability = ""
		},
		`SELU_SESSION_ID: "a b" is not the id of a session`: func(s *forward.Settings) { s.Session = "a b" },
		"CAPGATE_URL: the gateway's address is missing; want https://HOST:PORT": func(s *forward.Settings) {
			s.URL = " ,"
		},
		`CAPGATE_URL: "localhost:8080": want http://HOST:PORT or https://HOST:PORT`: func(s *forward.Settings) {
			s.URL = "localhost:8080"
		},
		"CAPGATE_URL: http://h:1 is cleartext, and a certificate is set; write https://h:1": func(s *forward.Settings) {
			s.URL, s.CAFile = "http://h:1", empty
		},
		"CAPGATE_KEY: the key is given twice, also by CAPGATE_KEY_FILE": func(s *forward.Settings) {
			s.Key, s.KeyFile = "a", "b"
		},
		"CAPGATE_KEY: the value is not a key": func(s *forward.Settings) { s.Key = "a\nb" },
		"CAPGATE_KEY_FILE: " + dir + "/none cannot be read: no such file": func(s *forward.Settings) {
			s.KeyFile = dir + "/none"
		},
		"CAPGATE_KEY_FILE: " + empty + ": the file contains no key": func(s *forward.Settings) { s.KeyFile = empty },
		"CAPGATE_CA_FILE: " + empty + " contains no PEM certificate": func(s *forward.Settings) {
			s.URL, s.CAFile = "https://h", empty
		},
		"CAPGATE_CERT_KEY_FILE: the key of the certificate": func(s *forward.Settings) { s.CertFile = empty },
		"CAPGATE_CERT_FILE: the certificate of the key":     func(s *forward.Settings) { s.CertKey = empty },
		"CAPGATE_LISTEN: listen tcp: address nonsense":      func(s *forward.Settings) { s.Listen = "nonsense" },
	} {
		s := good
		change(&s)
		f, err := forward.Listen(s, nil)
		if f != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s; f %+v", err, want, f)
		}
	}
}

// TestStop: at a stop, calls may finish, and those that do not are cut off with a status.
func TestStop(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"in time": false, "late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _, url := gateway(t)
			s := forward.Settings{URL: url, Drain: time.Minute}
			if late {
				s.Drain = time.Millisecond
			}
			w := run(t, s)
			called := make(chan error, 1)
			go func() { called <- w.invoke(context.Background(), gatewaytest.Block) }()
			check.Received(t, c.Blocked(), "the call to be held at the backend")
			w.stop()
			if !late {
				w.log.Wait(t, `"stopping"`)
				c.Release()
			}
			err, ended := check.Received(t, called, "the end of the call"), check.Received(t, w.ended, "Run to return")
			if !late && (err != nil || ended != nil) {
				t.Errorf("the call: %v, Run: %v", err, ended)
			}
			if late && (text(err) != "Unavailable: capgate forward is stopping; the call may have been carried out" ||
				ended == nil || mayRepeat(err)) {
				t.Errorf("the call: %v, Run: %v", err, ended)
			}
		})
	}
}
