package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// signURL signs a URL and downloads by it, and by an invalid one.
func (g *secretive) signURL(t *testing.T) {
	t.Helper()
	client, base := g.client(t, nil), "https://"+g.public
	code, _, body := g.fetch(t, client, http.MethodPost, base+"/v1/capabilities/caps/artifacts?filename=a.txt", "x",
		"x-api-key", g.key)
	var up struct{ Path string }
	check.Must(t, json.Unmarshal([]byte(body), &up))
	signed := struct{ URL string }{}
	if code == http.StatusCreated {
		_, _, body = g.fetch(t, client, http.MethodPost, base+up.Path+"/signed-url", "{}", "x-api-key", g.key,
			"content-type", "application/json")
		check.Must(t, json.Unmarshal([]byte(body), &signed))
	}
	_, signature, ok := strings.Cut(signed.URL, "signature=")
	if !ok {
		t.Fatalf("got %d %s", code, body)
	}
	g.plantAs("signed URL", signature)
	if code, _, body = g.fetch(t, client, http.MethodGet, base+signed.URL, ""); code != http.StatusOK || body != "x" {
		t.Errorf("got %d %s", code, body)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut} {
		for _, target := range []string{signed.URL + "x", signed.URL,
			strings.Replace(signed.URL, "/caps/", "/gone/", 1), "/v1/nothing?signature=" + signature} {
			code, header, body := g.fetch(t, client, method, base+target, "")
			g.scan("JSON of signed URLs", fmt.Sprintf("%d %v %s", code, header, body))
		}
	}
}
