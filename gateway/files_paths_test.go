package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestPathsOfFiles: which paths of files exist.
func TestPathsOfFiles(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	f.capability.Files = "a/b c%"
	client := f.gateway.HTTP1(t)
	up := transfer(t, client, http.MethodPost, f.gateway.URL(filesPath), strings.NewReader("x")).uploaded(t)
	if down := transfer(t, client, http.MethodGet, f.gateway.URL(up.Path), nil); down.StatusCode != 200 ||
		string(down.body) != "x" || up.ID != "a/b c%-1" {
		t.Errorf("%q at %s: %s %s", up.ID, up.Path, down.Status, down.body)
	}
	for _, test := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", filesPath + "/nothing", 404, `"reason":"ARTIFACT_REFUSED"`}, {"HEAD", filesPath + "/nothing", 404, ""},
		{"GET", "/v1/capabilities/nope/artifacts/x", 404, "CAPABILITY_UNKNOWN"},
		{"GET", filesPath, 405, "METHOD_NOT_ALLOWED"}, {"HEAD", filesPath, 405, ""},
		{"GET", filesPath + "/", 404, "NO_SUCH_PATH"}, {"OPTIONS", filesPath + "/", 404, ""},
		{"OPTIONS", filesPath, 204, ""}, {"PUT", filesPath + "/x", 405, "METHOD_NOT_ALLOWED"},
		{"OPTIONS", filesPath + "/x", 204, ""},
	} {
		if got := transfer(t, client, test.method, f.gateway.URL(test.path), nil); got.StatusCode != test.status ||
			!strings.Contains(string(got.body), test.want) {
			t.Errorf("%s %s: %s %s", test.method, test.path, got.Status, got.body)
		}
	}
}

// TestFilesOfSessions: the upload and later calls of a session reach the same backend.
func TestFilesOfSessions(t *testing.T) {
	t.Parallel()
	room := newRoom(t, 3, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{room.fleet(call.Doc)}})
	client := g.HTTP2(t)
	for i := range 10 {
		session := fmt.Sprint("s", i)
		up := transfer(t, client, http.MethodPost, g.URL(filesPath), strings.NewReader(session), "X-Session-Id",
			session).uploaded(t)
		down := transfer(t, client, http.MethodGet, g.URL(up.Path), nil, "X-Session-Id", session)
		served, err := inSession(t.Context(), gatewaytest.NewClient(g.Conn(t), call.Doc), session)
		if err != nil || string(down.body) != session || !strings.HasPrefix(up.ID, served+"-") {
			t.Errorf("%s: %s is at %s, %s %s, %v", session, up.ID, served, down.Status, down.body, err)
		}
	}
}
