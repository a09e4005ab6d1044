package kubeapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubetest"
)

// TestMetadataIsBounded: only the chosen labels and annotations are kept, of lists and of events, up to a length.
func TestMetadataIsBounded(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	put := func(name string) {
		labels, annotations := kubetest.Object{"app": "weather"}, kubetest.Object{"capgate.dev/capability": "weather",
			"capgate.dev/long": strings.Repeat("x", 5000), "example.com/" + strings.Repeat("y", 300): "z",
			"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("{}", 5000)}
		for i := range 100 {
			labels[fmt.Sprint("z", i)] = "1"
		}
		s.Put(plural, "tools", name, kubetest.Object{"addressType": "IPv4", "metadata": kubetest.Object{
			"labels": labels, "annotations": annotations}})
	}
	put("listed")
	kept := follow(t, s, slicesIn("tools"), kubeapi.Options{Labels: true, Annotations: "capgate.dev/"})
	none := follow(t, s, slicesIn("tools"), kubeapi.Options{})
	kept.has(t, "tools/listed IPv4")
	put("watched")
	for _, f := range []*follower{kept, none} {
		f.has(t, "tools/listed IPv4", "tools/watched IPv4")
	}
	for _, o := range kept.Objects() {
		if len(o.Labels) != 64 || o.Labels["app"] != "weather" || len(o.Annotations) != 2 ||
			o.Annotations["capgate.dev/capability"] != "weather" || len(o.Annotations["capgate.dev/long"]) != 253 {
			t.Errorf("%s: %d labels, annotations %q", o.Name, len(o.Labels), o.Annotations)
		}
	}
	for _, o := range none.Objects() {
		if len(o.Labels)+len(o.Annotations) != 0 {
			t.Errorf("%s: labels %q, annotations %q", o.Name, o.Labels, o.Annotations)
		}
	}
}

// TestLongNamesAreErrors: an object with a longer name than API servers have changes nothing.
func TestLongNamesAreErrors(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	s.Put(plural, "tools", strings.Repeat("n", 254), object("IPv4"))
	f := follow(t, s, slicesIn("tools"), kubeapi.Options{})
	check.Until(t, "an error", func() (bool, string) {
		state := f.State()
		return state.Err != nil && strings.Contains(state.Err.Error(), "longer than 253 bytes") &&
			state.Objects == 0, fmt.Sprint(state)
	})
	if log := f.log.String(); strings.Contains(log, "stay in force") || !strings.Contains(log, "cannot be listed") {
		t.Errorf("the log of a start without objects is %s", log)
	}
}
