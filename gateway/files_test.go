package gateway_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

const filesPath = "/v1/capabilities/caps/artifacts"

// uploaded is the response to an upload; a form has several.
type uploaded struct {
	ID          string
	Name        string
	Filename    string
	ContentType string `json:"content_type"`
	Size        int64
	SHA256      string
	Path        string
	Problem     *struct {
		Status int
		Reason string
		Detail string
	}
	Artifacts []uploaded
	Ignored   []string
}

// answered is a response that was read to its end.
type answered struct {
	*http.Response
	body []byte
	err  error // the error of reading it
}

func (a answered) uploaded(t *testing.T) (got uploaded) {
	t.Helper()
	if err := json.Unmarshal(a.body, &got); err != nil {
		t.Fatalf("got %s %v %q", a.Status, err, a.body)
	}
	return got
}

// transfer makes a request with a body that may have no length; header holds names and values in turn.
func transfer(t *testing.T, client *http.Client, method, url string, body io.Reader, header ...string) answered {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	check.Must(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	check.Must(t, err)
	defer resp.Body.Close()
	a := answered{Response: resp}
	a.body, a.err = io.ReadAll(resp.Body)
	return a
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha-256=" + base64.StdEncoding.EncodeToString(sum[:])
}

func hexOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// pattern returns n bytes that are not all equal.
func pattern(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return data
}

// TestFilesRoundTrip: the capability receives exactly what was uploaded, and a download returns it, over every
// protocol, to every dialect with files, for all sizes.
func TestFilesRoundTrip(t *testing.T) {
	t.Parallel()
	for _, backend := range []call.Dialect{call.Doc, call.Live} {
		f := startFront(t, call.Doc, backend)
		for _, protocol := range protocols {
			client := protocol.client(f.gateway, t)
			for _, size := range []int{0, 1, 65535, 65536, 262144, 262145, 1 << 20} {
				data := pattern(size)
				what := fmt.Sprintf("%s, %s, %d bytes", protocol.name, backend, size)
				up := transfer(t, client, http.MethodPost, f.gateway.URL(filesPath),
					io.MultiReader(bytes.NewReader(data)), "Content-Type", "image/png", "Content-Disposition",
					`attachment; filename="x.bin"; filename*=UTF-8''%E2%82%AC%20rates.png`)
				got := up.uploaded(t)
				if up.StatusCode != http.StatusCreated || got.Name != "capabilities/caps/artifacts/"+got.ID ||
					got.Size != int64(size) || got.SHA256 != hexOf(data) || got.Filename != "€ rates.png" ||
					up.Header.Get("Location") != got.Path || up.Header.Get("Digest") != digestOf(data) {
					t.Fatalf("%s: %s %v %s; got %+v", what, up.Status, up.Header, up.body, got)
				}
				if has, _ := f.capability.File(got.ID); !bytes.Equal(has.Data, data) || has.Name != "€ rates.png" ||
					has.MIME != "image/png" {
					t.Fatalf("%s: the capability has %q %q, %d bytes", what, has.Name, has.MIME, len(has.Data))
				}
				checkDownloads(t, client, f.gateway.URL(got.Path), what, data)
			}
		}
	}
}

// checkDownloads downloads a file in each way.
func checkDownloads(t *testing.T, client *http.Client, url, what string, data []byte) {
	t.Helper()
	for name, way := range map[string]struct {
		method string
		header []string
	}{"GET": {"GET", nil}, "GET with trailers": {"GET", []string{"TE", "trailers"}}, "HEAD": {"HEAD", nil}} {
		down := transfer(t, client, way.method, url, nil, way.header...)
		want := data
		if way.method == "HEAD" {
			want = nil
		}
		if down.err != nil || down.StatusCode != 200 || !bytes.Equal(down.body, want) {
			t.Fatalf("%s, %s: %s, %d bytes, %v", what, name, down.Status, len(down.body), down.err)
		}
		if h := down.Header; h.Get("Content-Type") != "image/png" || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Accept-Ranges") != "none" ||
			h.Get("Content-Disposition") != `attachment; filename="_ rates.png"; filename*=UTF-8''%E2%82%AC%20rates.png` {
			t.Errorf("%s, %s: %v", what, name, h)
		}
		short := len(data) <= 256<<10 || // one message of the capability, marked as the last
			way.method == "HEAD"
		said := down.Header
		if !short {
			said = down.Trailer
		}
		digest := digestOf(data)
		if !short && way.header == nil {
			digest = ""
		}
		if said.Get("Digest") != digest {
			t.Errorf("%s, %s: digest %q, not %q; %v, %v", what, name, said.Get("Digest"), digest, down.Header,
				down.Trailer)
		}
		if repr := strings.Replace(digest, "=", "=:", 1); digest != "" && said.Get("Repr-Digest") != repr+":" {
			t.Errorf("%s, %s: %v", what, name, said)
		}
		if short && down.ContentLength != int64(len(data)) {
			t.Errorf("%s, %s: Content-Length %d", what, name, down.ContentLength)
		}
	}
}

// form returns a form whose parts are given as filename, type and content; the filename "-" marks a field.
func form(t *testing.T, parts ...[3]string) (contentType string, body []byte) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i, p := range parts {
		header := textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf(`form-data; name="f%d"; filename="%s"`, i,
			p[0])}}
		if p[0] == "-" {
			header.Set("Content-Disposition", `form-data; name="field"`)
		}
		if p[1] != "" {
			header.Set("Content-Type", p[1])
		}
		part, err := w.CreatePart(header)
		check.Must(t, err)
		_, _ = io.WriteString(part, p[2])
	}
	_ = w.Close()
	return w.FormDataContentType(), b.Bytes()
}

// TestFormsOfFiles: each file of a form is one upload with its own result.
func TestFormsOfFiles(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	long := string(pattern(700 << 10))
	for _, protocol := range protocols {
		client := protocol.client(f.gateway, t)
		send := func(parts ...[3]string) answered {
			typ, body := form(t, parts...)
			return transfer(t, client, http.MethodPost, f.gateway.URL(filesPath), bytes.NewReader(body), "Content-Type",
				typ)
		}
		up := send([3]string{"a.txt", "text/plain", "a"}, [3]string{"-", "", "a field"}, [3]string{"b.bin", "", long},
			[3]string{"c", "text/css", ""})
		got := up.uploaded(t).Artifacts
		if up.StatusCode != http.StatusCreated || len(got) != 3 || up.Header.Get("Location") != "" {
			t.Fatalf("%s: %s %s; got %+v", protocol.name, up.Status, up.body, got)
		}
		for i, want := range []gatewaytest.File{{Name: "a.txt", MIME: "text/plain", Data: []byte("a")},
			{Name: "b.bin", MIME: "application/octet-stream", Data: []byte(long)}, {Name: "c", MIME: "text/css"}} {
			if has, _ := f.capability.File(got[i].ID); has.Name != want.Name || has.MIME != want.MIME ||
				!bytes.Equal(has.Data, want.Data) || got[i].SHA256 != hexOf(want.Data) {
				t.Errorf("%s: %d: %+v; the capability has %q %q, %d bytes", protocol.name, i, got[i], has.Name,
					has.MIME, len(has.Data))
			}
		}
		one := send([3]string{"a.txt", "text/plain", "a"})
		if all := one.uploaded(t).Artifacts; one.StatusCode != http.StatusCreated || len(all) != 1 ||
			one.Header.Get("Location") != all[0].Path {
			t.Errorf("%s, one: %s %v %s; all %+v", protocol.name, one.Status, one.Header, one.body, all)
		}
		some := send([3]string{gatewaytest.RefusedFile, "", long}, [3]string{"b", "", "b"})
		all := some.uploaded(t).Artifacts
		if some.StatusCode != http.StatusMultiStatus || len(all) != 2 || all[0].Problem == nil || all[0].ID != "" ||
			all[1].Problem != nil || all[1].ID == "" ||
			all[0].Problem.Status != 422 || all[0].Problem.Reason != "ARTIFACT_REFUSED" ||
			all[0].Problem.Detail != "this file is not wanted" {
			t.Errorf("%s, one refused: %s %s; all %+v", protocol.name, some.Status, some.body, all)
		}
	}
}

// TestBadUploads: the error of a malformed request says why, and nothing is stored.
func TestBadUploads(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	typ, body := form(t, [3]string{"a.txt", "text/plain", "some text"})
	empty, fields := "multipart/form-data; boundary=x",
		"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--x--\r\n"
	var many [][3]string
	for range 101 {
		many = append(many, [3]string{"a", "", "a"})
	}
	for _, protocol := range protocols {
		client := protocol.client(f.gateway, t)
		for _, test := range []struct {
			name, path, body string
			status           int
			reason           string
			header           []string
		}{
			{"no boundary", filesPath, string(body), 400, "INVALID_FORM",
				[]string{"Content-Type", "multipart/form-data"}},
			{"a bad boundary", filesPath, string(body), 400, "INVALID_FORM",
				[]string{"Content-Type", "Multipart/Form-Data; boundary=" + strings.Repeat("x", 71)}},
			{"no file part", filesPath, fields, 400, "INVALID_FORM", []string{"Content-Type", empty}},
			{"no part", filesPath, "--x--\r\n", 400, "INVALID_FORM", []string{"Content-Type", empty}},
			{"no form", filesPath, "hello", 400, "UPLOAD_CUT_OFF", []string{"Content-Type", empty}},
			{"nothing", filesPath, "", 400, "UPLOAD_CUT_OFF", []string{"Content-Type", empty}},
			{"a form cut off", filesPath, string(body[:len(body)-20]), 400, "UPLOAD_CUT_OFF",
				[]string{"Content-Type", typ}},
			{"a garbled part", filesPath, "--x\r\nno header\r\n\r\nx\r\n--x--\r\n", 400, "INVALID_FORM",
				[]string{"Content-Type", empty}},
			{"a bad name", filesPath, "x", 400, "INVALID_HEADER",
				[]string{"Content-Disposition", `attachment; filename="a`}},
			{"another digest", filesPath, "x", 400, "DIGEST_MISMATCH",
				[]string{"Repr-Digest", "sha-512=:AA==:, sha-256=:" +
					base64.StdEncoding.EncodeToString(make([]byte, 32)) + ":"}},
			{"an odd digest", filesPath, "x", 400, "DIGEST_MISMATCH", []string{"Content-Digest", "sha-256=x"}},
			{"a refused file", filesPath + "?filename=" + gatewaytest.RefusedFile, "x", 422, "ARTIFACT_REFUSED", nil},
			{"an unknown capability", "/v1/capabilities/nope/artifacts", "x", 404, "CAPABILITY_UNKNOWN", nil},
			{"a form for an unknown capability", "/v1/capabilities/nope/artifacts", string(body), 404,
				"CAPABILITY_UNKNOWN", []string{"Content-Type", typ}},
			{"a capability that cannot be", "/v1/capabilities/%00/artifacts", "x", 404, "NO_SUCH_PATH", nil},
			{"two capabilities", filesPath, "x", 400, "ROUTING_KEY_CONFLICT", []string{"X-Capability-Id", "other"}},
		} {
			before := f.capability.Kept()
			got := transfer(t, client, http.MethodPost, f.gateway.URL(test.path), strings.NewReader(test.body),
				test.header...)
			if got.StatusCode != test.status || !strings.Contains(string(got.body), `"reason":"`+test.reason+`"`) ||
				got.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s, %s: %s %s", protocol.name, test.name, got.Status, got.body)
			}
			if n := f.capability.Kept(); n != before {
				t.Errorf("%s, %s: %d files were kept", protocol.name, test.name, n-before)
			}
		}
		mtype, mbody := form(t, many...)
		got := transfer(t, client, http.MethodPost, f.gateway.URL(filesPath), bytes.NewReader(mbody), "Content-Type",
			mtype)
		all := got.uploaded(t).Artifacts
		if got.StatusCode != http.StatusMultiStatus || len(all) != 101 || all[99].ID == "" || all[100].Problem == nil ||
			all[100].Problem.Reason != "INVALID_FORM" {
			t.Errorf("%s, many: %s, %d", protocol.name, got.Status, len(all))
		}
	}
}

// TestDigestOfAnUpload: a client can send the digest of its file, which is verified.
func TestDigestOfAnUpload(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	data := pattern(300 << 10)
	for _, protocol := range protocols {
		client := protocol.client(f.gateway, t)
		for _, header := range [][]string{{"Digest", digestOf(data)},
			{"Repr-Digest", strings.Replace(digestOf(data), "=", "=:", 1) + ":"}, {"Content-Digest", "md5=:x:"}} {
			if up := transfer(t, client, http.MethodPost, f.gateway.URL(filesPath), bytes.NewReader(data),
				header...); up.StatusCode != http.StatusCreated {
				t.Errorf("%s, %q: %s %s", protocol.name, header, up.Status, up.body)
			}
		}
	}
}

// TestNamesOfUploads: names that could mislead a path, a terminal or a person do not reach a capability.
func TestNamesOfUploads(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	client := f.gateway.HTTP1(t)
	for said, want := range map[string]string{
		"../../etc/passwd": "passwd", `C:\dir\a.txt`: "a.txt", "a/..": "", "..": "", "/": "",
		"a\x00b\r\nc.txt": "abc.txt",
		"\u202Etxt.exe":   "txt.exe", "x\u2066y\u2069": "xy",
		" a b.txt. ": "a b.txt", "\xff.txt": "\uFFFD.txt", "ö€😀.txt": "ö€😀.txt",
		strings.Repeat("é", 700) + ".tar": strings.Repeat("é", 125) + ".tar", "": "",
		`a"b;c'%41.txt`: `a"b;c'%41.txt`,
	} {
		req := "?filename=" + url.QueryEscape(said)
		up := transfer(t, client, http.MethodPost, f.gateway.URL(filesPath+req), strings.NewReader("x"))
		got := up.uploaded(t)
		has, _ := f.capability.File(got.ID)
		if up.StatusCode != http.StatusCreated || got.Filename != want || has.Name != want {
			t.Errorf("%q: %s, %q, the capability has %q, not %q", said, up.Status, got.Filename, has.Name, want)
		}
		down := transfer(t, client, http.MethodGet, f.gateway.URL(got.Path), nil)
		if down.StatusCode != 200 || strings.ContainsAny(down.Header.Get("Content-Disposition"), "\r\n\x00") {
			t.Errorf("%q: %v", said, down.Header)
		}
	}
}

// TestTypesOfDownloads: no download is served with a type that a browser would run.
func TestTypesOfDownloads(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	client := f.gateway.HTTP2(t)
	for typ, want := range map[string]struct{ typ, how string }{
		"text/html": {"text/html", "attachment"}, "image/svg+xml": {"image/svg+xml", "attachment"},
		"text/plain;charset=utf-8": {"text/plain; charset=utf-8", "inline"},
		"IMAGE/PNG":                {"image/png", "inline"}, "": {"application/octet-stream", "attachment"},
		"rubbish": {"application/octet-stream", "attachment"}, "a/b;;=": {"application/octet-stream", "attachment"},
	} {
		up := transfer(t, client, http.MethodPost, f.gateway.URL(filesPath), strings.NewReader("x"), "Content-Type",
			typ).uploaded(t)
		for query, how := range map[string]string{"": "attachment", "?disposition=inline": want.how,
			"?disposition=other": "attachment"} {
			down := transfer(t, client, http.MethodGet, f.gateway.URL(up.Path+query), nil)
			sandboxed := down.Header.Get("Content-Security-Policy") != ""
			if down.Header.Get("Content-Type") != want.typ || down.Header.Get("Content-Disposition") != how ||
				sandboxed != (how == "attachment") || down.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%q%s: %v; sandboxed %+v", typ, query, down.Header, sandboxed)
			}
		}
	}
}
