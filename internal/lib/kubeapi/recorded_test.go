package kubeapi_test

import (
	"testing"

	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubetest"
)

// TestRecordedStreams: a Mirror understands what a real API server sent, with requests that are the recorded ones: an
// unknown token, a role without the verb, a list in pages, changes, bookmarks, and the expiry of a watch and of a page.
// `make kubernetes RECORD=1` records it again.
func TestRecordedStreams(t *testing.T) {
	t.Parallel()
	recording := kubetest.Read(t, "testdata/streams.json")
	check.Must(t, recording.Complete())
	server := kubetest.Replay(t, recording)
	client := kubeapi.New(kubeapi.Config{Address: server.URL})
	check.Cleanup(t, client.Close)
	r := slicesIn("tools")
	r.Selector = "kubernetes.io/service-name=caps"
	f := followWith(t, client, r, kubeapi.Options{PageSize: 2})
	check.Received(t, server.Ended(), "the last response")
	f.has(t, "tools/s0 IPv4", "tools/s1 IPv4", "tools/s4 IPv4", "tools/s5 IPv4", "tools/s6 IPv4", "tools/s7 IPv4",
		"tools/s8 IPv4")
	if s := f.until(t, "an established watch", followed); s.Lists != 2 || s.Failures != 2 {
		t.Errorf("%+v, want 2 lists, and the failures 401 and 403; API server %s", s, recording.Version)
	}
}
