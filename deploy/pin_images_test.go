package deploy

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// registry is a real registry behind a proxy that requires a token and can change responses.
type registry struct {
	addr string // of the proxy
	lies atomic.Bool
}

func startRegistry(t *testing.T) *registry {
	t.Helper()
	crane, err := tools["crane"]()
	check.Must(t, err)
	server := start(t, crane, "registry", "serve", "--address", "127.0.0.1:0")
	port := regexp.MustCompile(`serving on port (\d+)`)
	server.wait(t, "serving on port ")
	server.mu.Lock()
	target := &url.URL{Scheme: "http", Host: "127.0.0.1:" + port.FindStringSubmatch(server.text.String())[1]}
	server.mu.Unlock()
	r, behind := &registry{}, httputil.NewSingleHostReverseProxy(target)
	behind.ModifyResponse = func(resp *http.Response) error {
		if r.lies.Load() && resp.Request.Method == http.MethodGet &&
			strings.Contains(resp.Request.URL.Path, "/manifests/") {
			body, err := io.ReadAll(resp.Body)
			resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(append(body, ' '))), int64(len(body)+1)
			resp.Header.Del("Content-Length")
			return err
		}
		return nil
	}
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.URL.Path == "/token":
			_, _ = io.WriteString(w, `{"token":"open"}`)
		case req.Header.Get("Authorization") != "Bearer open":
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+req.Host+`/token",service="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			behind.ServeHTTP(w, req)
		}
	}))
	t.Cleanup(door.Close)
	r.addr = strings.TrimPrefix(door.URL, "http://")
	return r
}

// pin returns a copy of the files that pin-images reads, with images of a registry.
func pin(t *testing.T, r *registry) (dir string, images map[string]string) {
	t.Helper()
	dir, images = t.TempDir(), map[string]string{}
	named := regexp.MustCompile(`\$\{([A-Z]+_IMAGE):-([^}]+)\}`)
	write := func(name string, content []byte, mode os.FileMode) {
		check.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		check.Must(t, os.WriteFile(filepath.Join(dir, name), content, mode))
	}
	for _, file := range []string{"compose/compose.yaml", "selu/compose.yaml"} {
		text, err := os.ReadFile(file)
		check.Must(t, err)
		for _, found := range named.FindAllStringSubmatch(string(text), -1) {
			images[found[1]] = r.addr + "/" + found[2]
		}
		write("deploy/"+file, named.ReplaceAll(text, []byte("$${$1:-"+r.addr+"/$2}")), 0o600)
	}
	check.Must(t, os.Mkdir(filepath.Join(dir, "deploy/helm"), 0o700))
	for name, mode := range map[string]os.FileMode{"deploy/pin-images": 0o700, "tools/crane/go.mod": 0o600,
		"tools/crane/go.sum": 0o600} {
		content, err := os.ReadFile(filepath.Join("..", name))
		check.Must(t, err)
		write(name, content, mode)
	}
	return dir, images
}

// TestPinImages: tags become digests of a real registry that requires a token. A manifest that does not match its
// digest is rejected.
func TestPinImages(t *testing.T) {
	t.Parallel()
	r := startRegistry(t)
	dir, images := pin(t, r)
	own := r.addr + "/edge/capgate:1.0"
	for _, image := range append(slices.Collect(maps.Values(images)), own) {
		layer := filepath.Join(t.TempDir(), "layer.tar")
		command(t, "tar", "-cf", layer, "-C", "compose", "compose.yaml", "--transform",
			"s|^|"+strings.ReplaceAll(image[len(r.addr):], ":", "-")+"/|")
		if _, err := tool(t, "crane", "append", "-f", layer, "-t", image, "--oci-empty-base"); err != nil {
			t.Fatal(err)
		}
	}
	// An image for several platforms.
	if _, err := tool(t, "crane", "index", "append", "-m", images["REDIS_IMAGE"], "-m", own, "-t",
		images["REDIS_IMAGE"]); err != nil {
		t.Fatal(err)
	}
	script := func(args ...string) error {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "deploy/pin-images"), args...)
		cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	}

	r.lies.Store(true)
	if err := script(own); err == nil || !strings.Contains(err.Error(), "does not match requested digest") {
		t.Errorf("a manifest that is not its digest's: %v", err)
	}
	r.lies.Store(false)
	if err := script("registry:5000/capgate"); err == nil || !strings.Contains(err.Error(), "has no tag") {
		t.Errorf("an image without a tag: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "deploy/*/*")); len(left) != 2 { // the files of compose
		t.Errorf("a failure leaves %v", left)
	}

	check.Must(t, script(own))
	env, err := os.ReadFile(filepath.Join(dir, "deploy/compose/.env"))
	check.Must(t, err)
	if same, err := os.ReadFile(filepath.Join(dir, "deploy/selu/.env")); string(same) != string(env) {
		t.Errorf("selu/.env differs: %s %v", same, err)
	}
	for name, image := range images {
		if want := name + "=" + image + "@" + r.digest(t, image) + "\n"; !strings.Contains(string(env), want) {
			t.Errorf("no %q in\n%s", want, env)
		}
	}
	if n := strings.Count(string(env), "\n"); n != len(images) || n != 6 {
		t.Errorf("%d images of %v:\n%s", n, images, env)
	}
	values := filepath.Join(dir, "deploy/helm/pinned.yaml")
	got := field(renderChart(t, "--values", values)["Deployment capgate"], "spec", "template", "spec", "containers",
		0, "image")
	if want := r.addr + "/edge/capgate@" + r.digest(t, own); got != want {
		t.Errorf("the chart's image is %v, want %s", got, want)
	}
}

// digest returns the digest of the registry's manifest.
func (r *registry) digest(t *testing.T, image string) string {
	t.Helper()
	name, tag, _ := strings.Cut(strings.TrimPrefix(image, r.addr+"/"), ":")
	resp, body := clienttest.Send(t, clienttest.HTTP, http.MethodGet, "http://"+r.addr+"/v2/"+name+"/manifests/"+tag,
		"", "Authorization", "Bearer open")
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", image, resp.Status)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(body)))
}
