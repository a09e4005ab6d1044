package kubernetes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/registry"
)

// outage is a Service with a manifest in a ConfigMap, of an API server that may fail.
type outage struct {
	manifests
	targets []Target
	known   map[string]named
	data    map[string]string // of the ConfigMap; nil: it is gone
	err     error             // of readings
}

func newOutage() *outage {
	x := &outage{known: map[string]named{"texts": {map[string]*configMap{}, nil}},
		targets: []Target{{Capability: "c", manifest: "texts/a", Source: Source{Namespace: "n", Service: "s"}}}}
	x.reader = newReader(nil, &Options{ReadManifest: func(text string) (registry.Document, *call.Refusal) {
		if text == "invalid" {
			return nil, &call.Refusal{Message: text}
		}
		return ofC{len(text)}, nil
	}}, func() {})
	x.reader.pause = noPause
	x.reader.fetch = func(_ context.Context, _ kubeapi.Key, version string) (*configMap, error) {
		if x.err != nil || x.data == nil {
			return nil, x.err
		}
		return &configMap{kubeapi.Meta{Namespace: "n", Name: "texts", ResourceVersion: version}, x.data}, nil
	}
	return x
}

// put makes a version of the ConfigMap known.
func (x *outage) put(version string, data map[string]string) {
	x.data = data
	x.known["texts"].byNamespace["n"] = &configMap{Meta: kubeapi.Meta{Namespace: "n", Name: "texts",
		ResourceVersion: version}}
}

// has checks the text of the manifest in force, and the problem; "": none.
func (x *outage) has(t *testing.T, text, problem string) {
	t.Helper()
	for _, at := range x.reader.attempts { // the backoff has passed
		at.next = time.Time{}
	}
	x.assign(x.targets, x.known)
	if of, wait := x.reader.next(time.Now()); wait == 0 {
		x.reader.read(t.Context(), of)
	}
	in, problems := x.assign(x.targets, x.known)
	all := strings.Join(problems, "\n")
	if len(in) != 1 || in[0].sum != registry.NewManifest(text).Sum || !strings.Contains(all, problem) ||
		(problem == "") != (all == "") {
		t.Errorf("%d backends, with the manifest %v; want %q; problems: %s", len(in), in, text, all)
		return
	}
	if text != "" && x.documents()[in[0].sum] == nil {
		t.Errorf("the document of %q is lost", text)
	}
}

// TestOutageKeepsManifests: an error of the API server keeps what is in force, whatever a Service names now. A text
// that was read before counts.
func TestOutageKeepsManifests(t *testing.T) {
	t.Parallel()
	away := errors.New("504")
	x := newOutage()
	x.put("1", map[string]string{"a": "one", "b": "two", "c": "invalid"})
	x.has(t, "one", "")
	x.err = away
	x.targets[0].manifest = "texts/b"
	x.has(t, "one", "cannot be read: 504; the last valid manifest stays in force")
	x.err = nil
	x.has(t, "two", "")
	x.put("2", x.data)
	x.err = away
	x.has(t, "two", "cannot be read: 504; the last valid manifest stays in force")
	another := x.targets[0]
	another.Service = "another"
	if in, _ := x.assign([]Target{x.targets[0], another}, x.known); len(in) != 2 {
		t.Errorf("%d backends, want that of another Service with a text that was read", len(in))
	}
	x.targets[0].manifest = ""
	x.has(t, "", "")
	x.targets[0].manifest = "texts/c"
	x.has(t, "", "cannot be read: 504; the Service stays without one")
	x.err = nil
	x.assign(x.targets, x.known)
	for _, at := range x.reader.attempts {
		at.next = time.Time{}
	}
	if in, problems := x.settle(t, x.targets, x.known); len(in) != 0 || !strings.Contains(problems[0], "no valid") {
		t.Errorf("an invalid manifest: %v, %v", in, problems)
	}
}

// TestDeletionAfterAnOutage: the last valid manifest survives a reading that fails, and then the end of the ConfigMap.
func TestDeletionAfterAnOutage(t *testing.T) {
	t.Parallel()
	x := newOutage()
	x.put("1", map[string]string{"a": "one"})
	x.has(t, "one", "")
	x.put("2", x.data)
	x.err = errors.New("504")
	x.has(t, "one", "cannot be read")
	x.has(t, "one", "cannot be read")
	x.data, x.err = nil, nil // the watch is late
	x.has(t, "one", "")
	delete(x.known["texts"].byNamespace, "n")
	x.has(t, "one", "the namespace has no ConfigMap texts; the last valid manifest stays in force")
}
