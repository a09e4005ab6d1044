package main

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// TestPushKeepsTags: a second push of the same chart changes nothing. A push of another chart under the tag is
// rejected, and the registry keeps the first. If the content of the registry is unknown, nothing is pushed.
func TestPushKeepsTags(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() && r.Method == http.MethodHead && strings.Contains(r.URL.Path, "/manifests/") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		store.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	repository, err := name.NewRepository(strings.TrimPrefix(server.URL, "http://") + "/edge/charts/capgate")
	must(t, err)
	first, other := chart(t), chart(t)
	other.commit = "fedcba9876543210"
	must(t, other.makeChart(t.Context()))
	pushed := func(r *release, want string) {
		t.Helper()
		var out bytes.Buffer
		err := push(t.Context(), []string{r.file(r.layoutFile(chartOCI)), repository.String()}, &out)
		if err != nil {
			out.WriteString(err.Error())
		}
		there, headErr := remote.Get(repository.Tag(first.number()))
		must(t, headErr)
		want = strings.ReplaceAll(want, "DIGEST", there.Digest.String())
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s, not %s", out.String(), want)
		}
	}
	pushed(first, "pushed "+repository.String()+"@DIGEST\n")
	pushed(first, "found "+repository.String()+"@DIGEST\n")
	pushed(other, repository.String()+":0.1.0 is DIGEST in the registry, not sha256:")
	pushed(first, "found "+repository.String()+"@DIGEST\n")
	broken.Store(true)
	pushed(other, "HEAD "+server.URL)
}
