package files_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/frontdoor/files"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/resttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const filesPath = "/v1/capabilities/weather/artifacts"

// keeper is a capability that counts the files that it got to their end.
type keeper struct {
	docpb.UnimplementedCapabilityServer
	files atomic.Int32
}

func (k *keeper) UploadInputArtifact(s grpc.ClientStreamingServer[docpb.UploadInputArtifactChunk,
	docpb.UploadInputArtifactResponse]) error {
	for {
		switch _, err := s.Recv(); {
		case errors.Is(err, io.EOF):
			k.files.Add(1)
			return s.SendAndClose(&docpb.UploadInputArtifactResponse{CapabilityArtifactId: "id"})
		case err != nil:
			return err
		}
	}
}

func door(t *testing.T, k *keeper, cfg files.Config) *httptest.Server {
	t.Helper()
	return resttest.Serve(t, func(g *grpc.Server) { docpb.RegisterCapabilityServer(g, k) }, rest.Config{Files: cfg})
}

// TestLargestFile: a file of the largest size is taken, whether its length is announced or not. One with another byte
// is not.
func TestLargestFile(t *testing.T) {
	t.Parallel()
	const most = 1 << 10
	k := new(keeper)
	web := door(t, k, files.Config{MaxSize: most})
	for size, want := range map[int]int{most: http.StatusCreated, most + 1: http.StatusRequestEntityTooLarge} {
		for _, announced := range []bool{true, false} {
			var body io.Reader = strings.NewReader(strings.Repeat("x", size))
			if !announced {
				body = struct{ io.Reader }{body}
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+filesPath, body)
			check.Must(t, err)
			resp, err := web.Client().Do(req)
			check.Must(t, err)
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%d bytes, announced %t: %s %s", size, announced, resp.Status, text)
			}
		}
	}
	if n := k.files.Load(); n != 2 {
		t.Errorf("the capability has %d files, want 2", n)
	}
}

// TestUploadsEndTheirOwnStalls: a deadline that the server has set for a body that nothing reads ends no upload.
func TestUploadsEndTheirOwnStalls(t *testing.T) {
	t.Parallel()
	k := new(keeper)
	inner := door(t, k, files.Config{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)); err != nil {
			t.Error(err)
		}
		inner.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	resp, err := http.Post(web.URL+filesPath, "", strings.NewReader(strings.Repeat("x", 1<<20)))
	check.Must(t, err)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated || k.files.Load() != 1 {
		t.Errorf("%s; the capability has %d files", resp.Status, k.files.Load())
	}
}

// TestStalledUpload: a client that stops in the middle of a file gets an error.
func TestStalledUpload(t *testing.T) {
	t.Parallel()
	k := new(keeper)
	addr := strings.TrimPrefix(door(t, k, files.Config{Stall: 50 * time.Millisecond}).URL, "http://")
	conn, err := net.Dial("tcp", addr)
	check.Must(t, err)
	defer conn.Close()
	check.Must(t, conn.SetDeadline(time.Now().Add(check.Patience)))
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 17\r\n\r\n{", filesPath, addr)
	check.Must(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check.Must(t, err)
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(text), "UPLOAD_STALLED") {
		t.Errorf("%s %s", resp.Status, text)
	}
	if k.files.Load() != 0 {
		t.Error("the capability has the file")
	}
}
