package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/browsertest"
	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// npm is the directory into which tools/setup installs JavaScript packages.
const npm = "../bin/node"

// browsing bounds the start of a browser, or of Node, on a busy machine.
const browsing = 3 * time.Minute

// seenByPage is the report of testdata/web/calls.mjs on one protocol.
type seenByPage struct {
	Whole, Streamed, Message, ServedBy string
	Done                               bool
	Code, BrokenCode                   int
	Details                            []string
}

func assertSeenByPage(t *testing.T, raw []byte, protocols ...string) {
	t.Helper()
	var saw map[string]seenByPage
	if err := json.Unmarshal(raw, &saw); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if got := slices.Sorted(maps.Keys(saw)); !slices.Equal(got, protocols) {
		t.Fatalf("got %s", raw)
	}
	const args = `{"ö":1e400}`
	want := seenByPage{Whole: args, Streamed: args, Done: true, ServedBy: "b1", Code: 15, BrokenCode: 15,
		Message: "broke: 100% of it, naïvely", Details: []string{"google.rpc.ErrorInfo"}}
	for name, got := range saw {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// descriptors are those of the doc capability.
func descriptors(t *testing.T) []byte {
	t.Helper()
	file := protodesc.ToFileDescriptorProto(docpb.File_selu_capability_capability_proto)
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}}
	raw, err := proto.Marshal(set)
	check.Must(t, err)
	return raw
}

func modules(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(npm, "node_modules"))
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "@connectrpc", "connect-web"))
	}
	if err != nil {
		t.Fatalf("%v: run `make setup`", err)
	}
	return dir
}

func TestClientsOfNode(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	dir := t.TempDir()
	for _, err := range []error{
		os.CopyFS(dir, os.DirFS("testdata/web")),
		os.Symlink(modules(t), filepath.Join(dir, "node_modules")),
		os.WriteFile(filepath.Join(dir, "descriptors"), descriptors(t), 0o600),
	} {
		check.Must(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), browsing)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "node.mjs", f.gateway.URL(""), "descriptors")
	cmd.Dir, cmd.Stderr = dir, t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	assertSeenByPage(t, out, "Connect", "Connect, JSON", "gRPC-Web", "gRPC-Web, JSON")
}

// browsed serves pages to a browser.
type browsed struct {
	*http.ServeMux
	URL    string
	loaded chan struct{} // receives a value for each page that a browser requests
	report chan []byte   // receives the report of a page
}

func newBrowsed(t *testing.T) *browsed {
	b := &browsed{ServeMux: http.NewServeMux(), loaded: make(chan struct{}, 10), report: make(chan []byte, 1)}
	b.HandleFunc("/report", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.report <- body
	})
	server := httptest.NewServer(b)
	check.Cleanup(t, server.Close)
	b.URL = server.URL
	return b
}

// page serves a page of testdata/web.
func (b *browsed) page(name string) {
	b.HandleFunc(name, func(w http.ResponseWriter, r *http.Request) {
		b.loaded <- struct{}{}
		http.ServeFile(w, r, "testdata/web"+name)
	})
}

// show shows a page to a browser, and returns the page's report.
func (b *browsed) show(t *testing.T, page string) []byte {
	t.Helper()
	browse(t, b.URL+page)
	select {
	case <-b.loaded:
	case <-time.After(browsing):
		t.Fatal("the browser does not start")
	}
	return check.Received(t, b.report, "the page to say something")
}

// browse shows a page to a browser until the test ends.
func browse(t *testing.T, page string) {
	t.Helper()
	profile, err := os.MkdirTemp("", "capgate-chromium") // not t.TempDir: a dying process may still write to it
	check.Must(t, err)
	check.Cleanup(t, func() { _ = os.RemoveAll(profile) })
	cmd := exec.CommandContext(t.Context(), browsertest.Chromium(t), "--headless", "--no-sandbox", "--disable-gpu",
		"--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--user-data-dir="+profile, page)
	cmd.SysProcAttr = browsertest.Group()
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: run `make setup`", err)
	}
	check.Cleanup(t, func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
}

func TestAPageInABrowser(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	set := descriptors(t)
	gateway, err := url.Parse(f.gateway.URL(""))
	check.Must(t, err)
	pages := newBrowsed(t)
	pages.Handle("/", httputil.NewSingleHostReverseProxy(gateway))
	pages.Handle("/modules/", http.StripPrefix("/modules/", http.FileServer(http.Dir(modules(t)))))
	pages.page("/page.html")
	pages.HandleFunc("/calls.mjs", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, "testdata/web/calls.mjs")
	})
	pages.HandleFunc("/descriptors", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(set) })
	assertSeenByPage(t, pages.show(t, "/page.html"),
		"Connect", "Connect, JSON", "gRPC-Web", "gRPC-Web, JSON", "gRPC-Web, text")
}
