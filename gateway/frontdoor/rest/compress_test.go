package rest_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/resttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

func packed(t testing.TB, coding, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if coding == "zstd" {
		var err error
		if w, err = zstd.NewWriter(&b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	check.Must(t, w.Close())
	return b.String()
}

func unpacked(t testing.TB, coding, data string) string {
	t.Helper()
	var from io.Reader = strings.NewReader(data)
	var err error
	switch coding {
	case "gzip":
		from, err = gzip.NewReader(from)
	case "zstd":
		var z *zstd.Decoder
		z, err = zstd.NewReader(from)
		defer z.Close()
		from = z
	}
	check.Must(t, err)
	text, err := io.ReadAll(from)
	check.Must(t, err)
	return string(text)
}

func TestCompressedAnswers(t *testing.T) {
	t.Parallel()
	long := `{"a":"` + strings.Repeat("x", 5000) + `"}`
	b := &backend{invoke: func(_ context.Context, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
		return &docpb.InvokeResponse{ResultJson: req.GetArgsJson()}, nil
	}}
	web := door(t, b, rest.Config{})
	web.Client().Transport = clienttest.Bound(&http.Transport{DisableCompression: true})
	for accept, want := range map[string]string{
		"": "", "identity": "", "gzip": "gzip", "zstd": "zstd", "gzip, zstd": "zstd", "gzip, zstd;q=0.5": "gzip",
		"gzip;q=0, *": "zstd", "*": "zstd",
		"*;q=0": "", "gzip;q=0": "", "x-gzip;q=0, zstd;q=0, *": "", "zstd;q=0, *": "gzip", "br": "",
		"br, GZIP;Q=0.3": "gzip", "identity, gzip;q=0.5": "", "gzip;q=x": "", "gzip;q=2": "", "x-gzip": "gzip",
		"gzip ; q=0.1": "gzip",
	} {
		got := resttest.Send(t, web, "POST", toolPath, long, "Accept-Encoding", accept)
		if got.Status != 200 || got.Header.Get("Content-Encoding") != want || unpacked(t, want, got.Body) != long ||
			!strings.Contains(strings.Join(got.Header.Values("Vary"), ","), "Accept-Encoding") {
			t.Errorf("%q: %d %v", accept, got.Status, got.Header)
		}
		if want != "" && len(got.Body) > 1000 {
			t.Errorf("%q: %d bytes", accept, len(got.Body))
		}
	}
	if got := resttest.Send(t, web, "POST", toolPath, `{"a":1}`, "Accept-Encoding",
		"gzip"); got.Header.Get("Content-Encoding") != "" || got.Body != `{"a":1}` {
		t.Errorf("a short one: %v", got.Header)
	}
	if got := resttest.Send(t, web, "POST", streamPath, `{"tool_name":"t","args":`+long+`}`, "Accept-Encoding",
		"gzip"); got.Header.Get("Content-Encoding") != "" || !strings.Contains(got.Body, "event: done") {
		t.Errorf("a stream: %v", got.Header)
	}
	page := resttest.Send(t, web, "GET", "/docs/errors", "", "Accept-Encoding", "gzip")
	tag := page.Header.Get("ETag")
	if page.Header.Get("Content-Encoding") != "gzip" || !strings.HasPrefix(tag, `W/"`) ||
		!strings.Contains(unpacked(t, "gzip", page.Body), "CAPABILITY_UNKNOWN") {
		t.Errorf("the page: %v; tag %+v", page.Header, tag)
	}
	for _, known := range []string{tag, strings.TrimPrefix(tag, "W/"), `"x", ` + tag, "*"} {
		if got := resttest.Send(t, web, "GET", "/docs/errors", "", "Accept-Encoding", "gzip", "If-None-Match",
			known); got.Status != 304 || got.Body != "" || got.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %d %v", known, got.Status, got.Header)
		}
	}
	if got := resttest.Send(t, web, "HEAD", "/docs/errors", "", "Accept-Encoding", "gzip"); got.Status != 200 ||
		got.Header.Get("Content-Encoding") != "gzip" || got.Body != "" {
		t.Errorf("HEAD: %d %v", got.Status, got.Header)
	}
}

// TestAnswersThatAreNotKept are not compressed: their length would say something about the secrets in them.
func TestAnswersThatAreNotKept(t *testing.T) {
	t.Parallel()
	long := `{"a":"` + strings.Repeat("x", 5000) + `"}`
	web := door(t, new(backend), rest.Config{Extensions: []rest.Extension{func(to *rest.Routes) error {
		return to.Mux.HandlePath("GET", "/v1/long", func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", r.URL.Query().Get("cache"))
			_, _ = io.WriteString(w, long)
		})
	}}})
	web.Client().Transport = clienttest.Bound(&http.Transport{DisableCompression: true})
	for cache, want := range map[string]string{"private": "gzip", "no-store": "", "private,no-transform": ""} {
		got := resttest.Send(t, web, "GET", "/v1/long?cache="+cache, "", "Accept-Encoding", "gzip")
		if got.Status != 200 || got.Header.Get("Content-Encoding") != want || unpacked(t, want, got.Body) != long {
			t.Errorf("%s: %d %v", cache, got.Status, got.Header)
		}
	}
}

func TestCompressedRequests(t *testing.T) {
	t.Parallel()
	b := new(backend)
	web := door(t, b, rest.Config{MaxBody: 1 << 20})
	const text = `{"a":[1,2]}`
	bomb := `{"a":"` + strings.Repeat("x", 2<<20) + `"}`
	for _, tt := range []struct {
		name, coding, body string
		status             int
		reason             string
	}{
		{"gzip", "gzip", packed(t, "gzip", text), 200, ""},
		{"another name", "X-GZIP", packed(t, "gzip", text), 200, ""},
		{"zstd", "zstd", packed(t, "zstd", text), 200, ""},
		{"none", "identity", text, 200, ""},
		{"unknown", "br", text, 415, "UNSUPPORTED_ENCODING"},
		{"twice", "gzip, gzip", packed(t, "gzip", packed(t, "gzip", text)), 415, "UNSUPPORTED_ENCODING"},
		{"not gzip", "gzip", text, 400, "INVALID_BODY"},
		{"not zstd", "zstd", text, 400, "INVALID_BODY"},
		{"cut off", "gzip", packed(t, "gzip", text)[:12], 400, "INVALID_BODY"},
		{"much in little, gzip", "gzip", packed(t, "gzip", bomb), 413, "BODY_TOO_LARGE"},
		{"much in little, zstd", "zstd", packed(t, "zstd", bomb), 413, "BODY_TOO_LARGE"},
		// RFC 8878 §3.1.1
		{"a window of 16 MiB", "zstd", "\x28\xb5\x2f\xfd\x00\x70\x59\x00\x00" + text, 400, "INVALID_BODY"},
		{"two members", "gzip", packed(t, "gzip", text) + packed(t, "gzip", ""), 400, "INVALID_BODY"},
		{"not JSON", "gzip", packed(t, "gzip", "{"), 400, "INVALID_BODY"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := resttest.Send(t, web, "POST", toolPath, tt.body, "Content-Encoding", tt.coding)
			if got.Status != tt.status || tt.status == 200 && got.Body != text || tt.reason != "" &&
				resttest.ProblemOf(t, got).Reason != tt.reason ||
				(tt.status == 415) != (got.Header.Get("Accept-Encoding") != "") {
				t.Errorf("%d %v %s", got.Status, got.Header, got.Body)
			}
		})
	}
}
