package gateway_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
)

// TestUnusualPartsOfForms: every part of a form, whatever its headers, is stored, rejected with a problem, or
// listed as ignored. A 201 never omits one.
func TestUnusualPartsOfForms(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	const said = "Content-Disposition: form-data; name=\"odd\""
	for what, c := range map[string]struct {
		header, content    string // of the part
		name, typ, problem string // of the file
		data               string // default: content
		field              bool
	}{
		"a file": {said + `; filename="a.txt"` + "\r\nContent-Type: text/css", "x", "a.txt",
			"text/css", "", "", false},
		"an empty file": {said + `; filename="a.txt"`, "", "a.txt", "application/octet-stream", "", "",
			false},
		"filename*": {said + `; filename*=UTF-8''r%C3%A9sum%C3%A9.txt`, "x", "résumé.txt",
			"application/octet-stream", "", "", false},
		"both names": {said + `; filename="a"; filename*=UTF-8''%E2%82%AC`, "x", "€",
			"application/octet-stream", "", "", false},
		"filename* in pieces": {said + `; filename*0="a b"; filename*1=".txt"`, "x", "a b.txt",
			"application/octet-stream", "", "", false},
		"filename* of Latin-1": {said + `; filename*=ISO-8859-1''%e4.txt`, "x", "", "", "INVALID_FORM", "",
			false},
		"a quote": {said + `; filename="a\"b.txt"`, "x", `a"b.txt`, "application/octet-stream", "",
			"", false},
		"a browser's quote": {said + `; filename="a%22b.txt"`, "x", "a%22b.txt", "application/octet-stream",
			"", "", false},
		"an open quote": {said + `; filename="a.txt`, "x", "", "", "INVALID_FORM", "", false},
		"two names":     {said + `; filename="a"; filename="b"`, "x", "", "", "INVALID_FORM", "", false},
		"a name in UTF-8": {said + `; filename="ü.txt"`, "x", "ü.txt", "application/octet-stream", "", "",
			false},
		"a name without quotes": {said + `; filename=a.txt`, "x", "a.txt", "application/octet-stream", "", "",
			false},
		"an empty name":       {said + `; filename=""`, "x", "", "application/octet-stream", "", "", false},
		"a name of dots":      {said + `; filename=".."`, "x", "", "application/octet-stream", "", "", false},
		"no name, but a type": {said + "\r\nContent-Type: image/png", "x", "", "image/png", "", "", false},
		"another disposition": {`Content-Disposition: attachment; filename="a"`, "x", "a",
			"application/octet-stream", "", "", false},
		"no disposition": {"Content-Type: image/png", "x", "", "", "INVALID_FORM", "", false},
		"base64": {said + `; filename="a"` + "\r\nContent-Transfer-Encoding: BASE64",
			"aGVs\r\nbG8=\r\n", "a", "application/octet-stream", "", "hello", false},
		"wrong base64": {said + `; filename="a"` + "\r\nContent-Transfer-Encoding: base64", "a!", "a", "",
			"INVALID_FORM", "", false},
		"half of base64": {said + `; filename="a"` + "\r\nContent-Transfer-Encoding: base64", "aGVsb", "a",
			"", "INVALID_FORM", "", false},
		"quoted-printable": {said + `; filename="a"` + "\r\nContent-Transfer-Encoding: quoted-printable",
			"a=3Db", "a", "application/octet-stream", "", "a=b", false},
		"binary": {said + `; filename="a"` + "\r\nContent-Transfer-Encoding: binary", "=3D", "a",
			"application/octet-stream", "", "", false},
		"an unknown coding": {said + `; filename="a"` + "\r\nContent-Transfer-Encoding: x-uuencode", "x", "a",
			"", "INVALID_FORM", "", false},
		"several in one": {said + "\r\nContent-Type: multipart/mixed; boundary=y",
			"--y\r\n\r\nx\r\n--y--\r\n", "", "", "INVALID_FORM", "", false},
		"a message as a file": {said + `; filename="a.eml"` + "\r\nContent-Type: message/rfc822", "x", "a.eml",
			"message/rfc822", "", "", false},
		"a field":                   {said, "x", "", "", "", "", true},
		"an empty field":            {said, "", "", "", "", "", true},
		"an empty field of a form":  {said + "\r\nContent-Type: text/plain", "", "", "", "", "", true},
		"an empty file by its type": {said + "\r\nContent-Type: image/png", "", "", "image/png", "", "", false},
		"a field of .NET":           {said + "\r\nContent-Type: text/plain; charset=utf-8", "x", "", "", "", "", true},
		"an input without its file": {said + `; filename=""` + "\r\nContent-Type: application/octet-stream", "", "",
			"", "", "", true},
		"a type that cannot be read": {said + `; filename="a"` + "\r\nContent-Type: ;;", "x", "a",
			"application/octet-stream", "", "", false},
	} {
		const first = "--x\r\nContent-Disposition: form-data; name=\"one\"; filename=\"one.txt\"\r\n\r\n1\r\n"
		last := strings.ReplaceAll(first, "one", "last") + "--x--\r\n"
		resp := transfer(t, protocols[0].client(f.gateway, t), http.MethodPost, f.gateway.URL(filesPath),
			strings.NewReader(first+"--x\r\n"+c.header+"\r\n\r\n"+c.content+"\r\n"+last),
			"Content-Type", "multipart/form-data; boundary=x")
		got := resp.uploaded(t)
		if c.field {
			if resp.StatusCode != http.StatusCreated || len(got.Artifacts) != 2 ||
				!strings.Contains(c.header, "filename") != slices.Equal(got.Ignored, []string{"odd"}) {
				t.Errorf("%s: %s %s", what, resp.Status, resp.body)
			}
			continue
		}
		status := http.StatusCreated
		if c.problem != "" {
			status = http.StatusMultiStatus
		}
		if resp.StatusCode != status || len(got.Artifacts) != 3 || got.Artifacts[2].Filename != "last.txt" {
			t.Errorf("%s: %s %s", what, resp.Status, resp.body)
			continue
		}
		file := got.Artifacts[1]
		if c.problem != "" {
			if file.Problem == nil || file.Problem.Reason != c.problem || file.Problem.Status != 400 || file.ID != "" {
				t.Errorf("%s: %s", what, resp.body)
			}
			continue
		}
		if c.data == "" {
			c.data = c.content
		}
		has, _ := f.capability.File(file.ID)
		if has.Name != c.name || has.MIME != c.typ || string(has.Data) != c.data || file.Filename != c.name {
			t.Errorf("%s: the capability has %q, %q, %q; the answer is %s", what, has.Name, has.MIME, has.Data,
				resp.body)
		}
	}
}

// TestQueriesOfUploads: an unknown query parameter of an upload is rejected.
func TestQueriesOfUploads(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	typ, body := form(t, [3]string{"a.txt", "text/plain", "some text"})
	for query, c := range map[string]struct {
		typ  string
		want int
	}{
		"filename=" + url.QueryEscape("a b;c"): {"text/plain", 201}, "": {typ, 201}, "filename=": {"text/plain", 201},
		"file_name=a": {"text/plain", 400}, "filename=a&filename=b": {"text/plain", 400},
		"filename=%zz": {"text/plain", 400}, "filename=a;b": {"text/plain", 400}, "filename=a": {typ, 400},
		"filename=a&x=": {"text/plain", 400},
	} {
		for _, protocol := range protocols {
			before := f.capability.Kept()
			resp := transfer(t, protocol.client(f.gateway, t), http.MethodPost, f.gateway.URL(filesPath+"?"+query),
				strings.NewReader(string(body)), "Content-Type", c.typ)
			if resp.StatusCode != c.want || c.want == 400 && (!strings.Contains(string(resp.body), "INVALID_QUERY") ||
				f.capability.Kept() != before) {
				t.Errorf("%s, %q as %s: %s %s", protocol.name, query, c.typ, resp.Status, resp.body)
			}
		}
	}
	resp := transfer(t, protocols[0].client(f.gateway, t), http.MethodPost, f.gateway.URL(filesPath),
		strings.NewReader("x"), "Content-Disposition", "attachment; filename*=ISO-8859-1''%e4")
	if resp.StatusCode != 400 || !strings.Contains(string(resp.body), "INVALID_HEADER") {
		t.Errorf("a name in another charset: %s %s", resp.Status, resp.body)
	}
	coded := "--x\r\nContent-Disposition: form-data; name=a; filename=a\r\nContent-Transfer-Encoding: base64\r\n\r\n" +
		base64.StdEncoding.EncodeToString(pattern(700<<10)) + "\r\n--x--\r\n"
	resp = transfer(t, protocols[0].client(f.gateway, t), http.MethodPost, f.gateway.URL(filesPath),
		strings.NewReader(coded), "Content-Type", "multipart/form-data; boundary=x")
	if got := resp.uploaded(t).Artifacts; len(got) != 1 || got[0].SHA256 != hexOf(pattern(700<<10)) {
		t.Errorf("a long file in base64: %s %s", resp.Status, resp.body)
	}
}
