package kubereal_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubereal"
	"github.com/capgate/capgate/internal/testkit/kubetest"
)

var record = flag.Bool("record", false, "write the responses of the API server to "+recorded)

// recorded is the file that the tests of kubeapi replay.
const recorded = "../../lib/kubeapi/testdata/streams.json"

// recorder forwards requests to an API server and records the responses.
type recorder struct {
	api    *kubereal.Cluster
	token  func(request int) string
	before func(*http.Request) // called before a request is forwarded

	mu        sync.Mutex
	exchanges []kubetest.Exchange
}

// ServeHTTP implements http.Handler.
func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	n := len(r.exchanges)
	r.exchanges = append(r.exchanges, kubetest.Exchange{Path: req.URL.Path, Query: kubetest.Decisive(req.URL.Query())})
	r.mu.Unlock()
	r.before(req)
	resp, err := r.api.Open(req.Context(), req.URL.RequestURI(), r.token(n))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	r.keep(n, func(e *kubetest.Exchange) {
		e.Code, e.Type, e.RetryAfter = resp.StatusCode, resp.Header.Get("Content-Type"), resp.Header.Get("Retry-After")
	})
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	_ = http.NewResponseController(w).Flush() // the client may be gone
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r.keep(n, func(e *kubetest.Exchange) { e.Lines = append(e.Lines, lines.Text()) })
		_, _ = fmt.Fprintln(w, lines.Text())
		_ = http.NewResponseController(w).Flush()
	}
	r.keep(n, func(e *kubetest.Exchange) { e.Open = req.Context().Err() != nil })
}

func (r *recorder) keep(n int, change func(*kubetest.Exchange)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.exchanges[n])
}

// slice is the part of an EndpointSlice that a Mirror needs.
type slice struct {
	kubeapi.Meta `json:"metadata"`
}

// TestAPIServerStreams: a Mirror follows a real API server through all forms of responses. The flag -record keeps them
// for the tests of kubeapi.
func TestAPIServerStreams(t *testing.T) {
	api := kubereal.Start(t)
	api.Namespace(t, "tools")
	put := func(name string, port int) {
		api.Put(kubetest.EndpointSlices, "tools", name, kubetest.Slice("caps", port,
			kubetest.Endpoint{Addr: "10.64.1.1", Pod: "pod-" + name, Zone: "a"}))
	}
	for i := range 5 {
		put(fmt.Sprint("s", i), 50051)
	}
	api.CreateAccount(t, "default", "capgate")
	api.CreateAccount(t, "default", "roleless")
	api.ApplyFile(t, "../../../deploy/kustomize/overlays/kubernetes/roles.yaml")
	tokens := []string{"invalid", api.Token(t, "default", "roleless"), api.Token(t, "default", "capgate")}
	restarted := make(chan struct{}, 2)
	restart := func() {
		api.Compact()
		api.StopServer()
		api.StartServer()
		restarted <- struct{}{}
	}
	watches, lists := 0, 0 // each request is made after the previous one
	rec := &recorder{api: api, token: func(n int) string { return tokens[min(n, 2)] }}
	rec.before = func(r *http.Request) {
		query := r.URL.Query()
		switch {
		case query.Get("watch") == "true":
			if watches++; watches == 2 { // its version expires
				api.Delete(kubetest.EndpointSlices, "tools", "s3")
				put("s6", 50051)
				restart()
			}
		case query.Get("continue") == "":
			lists++
		case lists == 4: // after those of 401 and 403, and the first: the rest expires
			lists++
			put("s7", 50051)
			restart()
		}
	}
	server := httptest.NewServer(rec)
	check.Cleanup(t, server.Close)
	client := kubeapi.New(kubeapi.Config{Address: server.URL, Timeout: 2 * time.Minute})
	check.Cleanup(t, client.Close)
	changed := make(chan struct{}, 1)
	mirror := kubeapi.NewMirror(client, kubeapi.Resource{Group: "discovery.k8s.io", Version: "v1",
		Plural: kubetest.EndpointSlices, Namespace: "tools", Selector: "kubernetes.io/service-name=caps"},
		func(s *slice) *kubeapi.Meta { return &s.Meta }, kubeapi.Options{PageSize: 2, Watch: 10 * time.Second,
			First: time.Millisecond, Max: 20 * time.Millisecond, Changed: func() {
				select {
				case changed <- struct{}{}:
				default:
				}
			}})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { mirror.Run(ctx) })
	check.Cleanup(t, func() {
		cancel()
		check.Ended(t, &all, "the mirror")
	})
	has := func(want ...string) {
		t.Helper()
		check.UntilEvent(t, fmt.Sprint("the objects ", want), func() (bool, string, <-chan struct{}) {
			var got []string
			for _, o := range mirror.Objects() {
				got = append(got, o.Name)
			}
			slices.Sort(got)
			return slices.Equal(got, want), fmt.Sprint(got, mirror.State().Err), changed
		})
	}
	has("s0", "s1", "s2", "s3", "s4")
	check.Until(t, "an established watch", func() (bool, string) {
		return mirror.State().Since.IsZero(), fmt.Sprint(mirror.State().Err)
	})
	put("s5", 50051)
	put("s1", 50052)
	api.Delete(kubetest.EndpointSlices, "tools", "s2")
	has("s0", "s1", "s3", "s4", "s5")
	check.Received(t, restarted, "the restart before the second watch")
	check.Received(t, restarted, "the restart before the second page")
	has("s0", "s1", "s4", "s5", "s6", "s7")
	put("s8", 50051)
	has("s0", "s1", "s4", "s5", "s6", "s7", "s8")
	if s := mirror.State(); s.Lists != 2 || s.Failures != 2 {
		t.Errorf("%+v, want 2 lists, and the failures 401 and 403", s)
	}
	cancel()
	all.Wait()
	server.Close()
	rec.write(t)
}

// write checks that the recording has all forms and, with the flag -record, writes it.
func (r *recorder) write(t *testing.T) {
	t.Helper()
	_, version, err := r.api.Get("/version", r.token(2))
	check.Must(t, err)
	var is struct{ GitVersion string }
	check.Must(t, json.Unmarshal(version, &is))
	recording := &kubetest.Recording{Version: is.GitVersion, Exchanges: r.exchanges}
	for _, e := range r.exchanges {
		t.Logf("%d %s, %d lines, open: %v", e.Code, e.Query, len(e.Lines), e.Open)
		for _, line := range e.Lines {
			t.Logf("    %.300s", line)
		}
	}
	check.Must(t, recording.Complete())
	text, err := json.MarshalIndent(recording, "", " ")
	check.Must(t, err)
	for _, secret := range append([]string{r.api.Dir, "Bearer"}, r.token(1), r.token(2)) {
		if strings.Contains(string(text), secret) {
			t.Fatalf("the recording contains %q", secret)
		}
	}
	if *record {
		check.Must(t, os.WriteFile(recorded, append(text, '\n'), 0o644))
	}
}
