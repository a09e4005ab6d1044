package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/files"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

type (
	uploads   = grpc.ClientStreamingServer[docpb.UploadInputArtifactChunk, docpb.UploadInputArtifactResponse]
	downloads = grpc.ServerStreamingServer[docpb.ArtifactChunk]
)

// oddFiles is a capability whose files fail in various ways.
type oddFiles struct {
	docpb.UnimplementedCapabilityServer
	upload   func(uploads) error
	download func(downloads) error
}

func (o *oddFiles) UploadInputArtifact(s uploads) error {
	return o.upload(s)
}

func (o *oddFiles) DownloadOutputArtifact(_ *docpb.DownloadOutputArtifactRequest, s downloads) error {
	return o.download(s)
}

// startOddFiles starts it behind a gateway with the given maximum size of files.
func startOddFiles(t *testing.T, most int64, o *oddFiles) (*gatewaytest.Gateway, *gatewaytest.Backend) {
	t.Helper()
	b := gatewaytest.Serve(t, func(s *grpc.Server) { docpb.RegisterCapabilityServer(s, o) })
	return gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{b.Addr}, Unprobed: true}},
		REST:   rest.Config{Files: files.Config{MaxSize: most, Stall: check.Patience}},
	}), b
}

// unended is a body that stays open after its bytes, until it is closed.
type unended struct {
	io.Reader
	closed chan struct{}
	once   sync.Once
}

func newUnended(t *testing.T, data []byte) *unended {
	u := &unended{Reader: bytes.NewReader(data), closed: make(chan struct{})}
	check.Cleanup(t, func() { _ = u.Close() })
	return u
}

func (u *unended) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if err == io.EOF {
		<-u.closed
		err = io.ErrClosedPipe
	}
	return n, err
}

func (u *unended) Close() error {
	u.once.Do(func() { close(u.closed) })
	return nil
}

// TestUploadsThatBreak: a client that leaves before the end of its file has uploaded nothing: the capability
// sees a canceled call, never a complete one.
func TestUploadsThatBreak(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		t.Run(protocol.name, func(t *testing.T) {
			t.Parallel()
			came, ended := make(chan struct{}, 10), make(chan error, 10)
			g, _ := startOddFiles(t, 8<<20, &oddFiles{upload: func(s uploads) error {
				for {
					if _, err := s.Recv(); err != nil {
						ended <- err
						return err
					}
					came <- struct{}{}
				}
			}})
			client := protocol.client(g, t)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			body := newUnended(t, pattern(300<<10))
			go func() {
				<-came
				leave()
				_ = body.Close() // waits for the goroutine that reads the body for HTTP/1.1
			}()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL(filesPath), body)
			check.Must(t, err)
			if resp, err := client.Do(req); err == nil {
				_ = resp.Body.Close()
				t.Errorf("the upload got %s", resp.Status)
			}
			if err := check.Received(t, ended, "the end of the call"); status.Code(err) != codes.Canceled {
				t.Errorf("the capability saw %v", err)
			}
			for _, line := range g.Log.Calls(t, 1) {
				if line.Text("code") != "CANCELLED" {
					t.Errorf("got %v", line)
				}
			}
		})
	}
}

// TestUploadsThatAreAnswered: if a capability responds before the end of an upload, or dies, the client learns
// that at once.
func TestUploadsThatAreAnswered(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		for name, test := range map[string]struct {
			upload func(uploads) error
			dies   bool
			status int
			reason string
		}{
			"refused": {upload: func(s uploads) error {
				return s.SendAndClose(&docpb.UploadInputArtifactResponse{Error: "no room"})
			}, status: 422, reason: "ARTIFACT_REFUSED"},
			"too early": {upload: func(s uploads) error {
				return s.SendAndClose(&docpb.UploadInputArtifactResponse{CapabilityArtifactId: "x"})
			}, status: 502, reason: "ARTIFACT_NOT_READ"},
			"failed": {upload: func(uploads) error {
				return status.Error(codes.NotFound, "no such session")
			}, status: 404},
			"died": {upload: func(s uploads) error {
				<-s.Context().Done()
				return nil
			}, dies: true, status: 503, reason: "UPSTREAM_LOST"},
		} {
			t.Run(protocol.name+", "+name, func(t *testing.T) {
				t.Parallel()
				came := make(chan struct{}, 10)
				g, b := startOddFiles(t, 8<<20, &oddFiles{upload: func(s uploads) error {
					if _, err := s.Recv(); err != nil {
						return err
					}
					came <- struct{}{}
					return test.upload(s)
				}})
				if test.dies {
					go func() {
						<-came
						b.Stop()
					}()
				}
				got := transfer(t, protocol.client(g, t), http.MethodPost, g.URL(filesPath),
					newUnended(t, pattern(300<<10)))
				if got.StatusCode != test.status || !strings.Contains(string(got.body), test.reason) {
					t.Errorf("got %s %s", got.Status, got.body)
				}
			})
		}
	}
}

// TestLargeUploads: a file over the maximum size gets 413, with or without Content-Length.
func TestLargeUploads(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 10)
	const most = 8 << 20
	g, _ := startOddFiles(t, most, &oddFiles{upload: func(s uploads) error {
		for {
			if _, err := s.Recv(); err != nil {
				ended <- err
				return err
			}
		}
	}})
	for _, protocol := range protocols {
		client := protocol.client(g, t)
		got := transfer(t, client, http.MethodPost, g.URL(filesPath), bytes.NewReader(make([]byte, most+1)))
		if got.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(got.body), "BODY_TOO_LARGE") {
			t.Errorf("%s: %s %s", protocol.name, got.Status, got.body)
		}
		got = transfer(t, client, http.MethodPost, g.URL(filesPath), newUnended(t, make([]byte, most+1)))
		if got.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(got.body), "BODY_TOO_LARGE") {
			t.Errorf("%s, without a length: %s %s", protocol.name, got.Status, got.body)
		}
		if err := check.Received(t, ended, "the end of the call"); status.Code(err) != codes.Canceled {
			t.Errorf("%s: the capability saw %v", protocol.name, err)
		}
	}
}

// TestDownloadsThatBreak: a truncated file never looks complete, and a download that fails before its first
// byte is a problem document.
func TestDownloadsThatBreak(t *testing.T) {
	t.Parallel()
	piece := pattern(100 << 10)
	for _, protocol := range protocols {
		for name, test := range map[string]struct {
			begin  int // messages before the failure
			end    func(downloads) error
			dies   bool
			status int
			reason string
		}{
			"an error at once": {0, func(s downloads) error {
				return s.Send(&docpb.ArtifactChunk{Error: "no disk"})
			}, false,
				404, `"detail":"no disk"`},
			"nothing": {0, func(downloads) error { return nil }, false, 502, "ANSWER_CUT_OFF"},
			"a status at once": {0, func(downloads) error { return status.Error(codes.DataLoss, "lost") }, false, 500,
				`"code":"DATA_LOSS"`},
			"an error later": {3, func(s downloads) error {
				return s.Send(&docpb.ArtifactChunk{Error: "no disk"})
			}, false,
				200, ""},
			"no last piece": {3, func(downloads) error { return nil }, false, 200, ""},
			"a status later": {3, func(downloads) error {
				return status.Error(codes.DataLoss, "lost")
			}, false, 200, ""},
			"behind its end": {3, func(s downloads) error {
				return s.Send(&docpb.ArtifactChunk{Done: true})
			}, false, 200,
				""},
			"a status after all": {3, func(downloads) error {
				return status.Error(codes.DataLoss, "lost")
			}, false, 200, ""},
			"death": {3, func(s downloads) error {
				<-s.Context().Done()
				return nil
			}, true, 200, ""},
		} {
			t.Run(protocol.name+", "+name, func(t *testing.T) {
				t.Parallel()
				g, b := startOddFiles(t, 8<<20, &oddFiles{download: func(s downloads) error {
					for i := range test.begin {
						last := i == test.begin-1 && (name == "behind its end" || name == "a status after all")
						if err := s.Send(&docpb.ArtifactChunk{Data: piece, Done: last}); err != nil {
							return err
						}
					}
					return test.end(s)
				}})
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL(filesPath+"/x"), nil)
				check.Must(t, err)
				resp, err := protocol.client(g, t).Do(req)
				check.Must(t, err)
				defer resp.Body.Close()
				if test.dies {
					b.Stop()
				}
				body, err := io.ReadAll(resp.Body)
				if resp.StatusCode != test.status || (err != nil) != (test.status == 200) ||
					!strings.Contains(string(body), test.reason) {
					t.Errorf("%s, %d bytes, %v", resp.Status, len(body), err)
				}
			})
		}
	}
}

// TestRefusedUploads: a client that sends its whole file before it reads receives the reason of the rejection.
func TestRefusedUploads(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	g, _ := startOddFiles(t, most, &oddFiles{upload: func(s uploads) error {
		for {
			if _, err := s.Recv(); err != nil {
				return err
			}
		}
	}})
	for name, head := range map[string]string{"of a length": "Content-Length: 41943040\r\n",
		"in chunks": "Transfer-Encoding: chunked\r\n"} {
		conn, err := net.Dial("tcp", g.Addr)
		check.Must(t, err)
		check.Cleanup(t, func() { _ = conn.Close() })
		patient := func() { _ = conn.SetDeadline(time.Now().Add(check.Patience)) }
		patient()
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n%s\r\n",
			filesPath, head); err != nil {
			t.Fatal(err)
		}
		piece := strings.Repeat("x", 1<<20)
		if strings.HasPrefix(head, "Transfer") {
			piece = "100000\r\n" + piece + "\r\n"
		}
		for range 40 {
			patient()
			if _, err := io.WriteString(conn, piece); err != nil {
				t.Fatalf("%s: sending: %v", name, err)
			}
		}
		patient()
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 413 ") ||
			!strings.Contains(string(answer), "BODY_TOO_LARGE") {
			t.Errorf("%s: %v, %.500q", name, err, answer)
		}
	}
}

// TestRefusedUploadsByCurl: curl receives it too, over every version of HTTP.
func TestRefusedUploadsByCurl(t *testing.T) {
	t.Parallel()
	g, _ := startOddFiles(t, 1<<20, &oddFiles{upload: func(s uploads) error {
		for {
			if _, err := s.Recv(); err != nil {
				return err
			}
		}
	}})
	file := filepath.Join(t.TempDir(), "file")
	check.Must(t, os.WriteFile(file, make([]byte, 20<<20), 0o600))
	for version, speak := range curlSpeaks(t) {
		for _, length := range []string{"Expect:", "Transfer-Encoding: chunked"} {
			got := curl(t, speak, "-H", length, "-H", "Expect:", "-H", "Content-Type: text/plain", "--data-binary", "@"+
				file, g.URL(filesPath))
			if p := got.problem(t); p.Status != 413 || p.Reason != "BODY_TOO_LARGE" {
				t.Errorf("%s, %s: %+v", version, length, p)
			}
		}
	}
}

// TestAfterAnUploadThatIsTooLarge: after the rejection, the connection closes or serves the next request. The
// end of the body arrives with the first byte over the limit, so that net/http already reads the next request.
func TestAfterAnUploadThatIsTooLarge(t *testing.T) {
	t.Parallel()
	g, _ := startOddFiles(t, 10, &oddFiles{upload: func(s uploads) error {
		for {
			if _, err := s.Recv(); err != nil {
				return err
			}
		}
	}})
	conn, err := net.DialTimeout("tcp", g.Addr, check.Patience)
	check.Must(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nTransfer-Encoding: "+
		"chunked\r\n\r\nb\r\n%s\r\n0\r\n\r\n", filesPath, "eleven byte")
	check.Must(t, err)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Fatalf("got %v, %v", resp, err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if resp.Close {
		if _, err := in.ReadByte(); err == nil {
			t.Error("more comes after an answer that ends the connection")
		}
		return
	}
	if _, err := fmt.Fprint(conn, "GET /v1/capabilities HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if resp, err = http.ReadResponse(in, nil); err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(resp.Body); err != nil || len(all) == 0 {
		t.Errorf("the next request: %s %q, %v", resp.Status, all, err)
	}
}
