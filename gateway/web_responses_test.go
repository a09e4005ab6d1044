package gateway_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

var updateWeb = flag.Bool("update-web", false, "write "+webResponses) //nolint:gochecknoglobals // a flag

// webCase is a request of Connect or gRPC-Web.
type webCase struct {
	name, path, contentType, body string
	header                        []string
}

// enveloped returns an envelope.
func enveloped(flags byte, data string) string {
	return string(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(data)))) + data
}

func zipped(text string) string {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return out.String()
}

// webCases returns requests in every form, well-formed and not.
func webCases(t *testing.T) (all []webCase) {
	t.Helper()
	encoded := func(json bool, m proto.Message) string {
		if json {
			text, err := protojson.MarshalOptions{}.Marshal(m)
			check.Must(t, err)
			return string(text)
		}
		raw, err := proto.Marshal(m)
		check.Must(t, err)
		return string(raw)
	}
	unknown := request(gatewaytest.Echo, "{}")
	unknown.CapabilityId = "nope"
	long := request(gatewaytest.Echo, `{"text":"`+strings.Repeat("long ", 1000)+`"}`)
	const gz = "gzip"
	for _, form := range []struct {
		typ, coding, accept, timeout, zero string
		json, streams, text, web           bool
	}{
		{"application/grpc-web", "Grpc-Encoding", "Grpc-Accept-Encoding", "Grpc-Timeout", "0n", false, false, false,
			true},
		{"application/grpc-web+proto", "Grpc-Encoding", "Grpc-Accept-Encoding", "Grpc-Timeout", "0n", false, true,
			false, true},
		{"application/grpc-web+json", "Grpc-Encoding", "Grpc-Accept-Encoding", "Grpc-Timeout", "0n", true, false, false,
			true},
		{"application/grpc-web-text", "Grpc-Encoding", "Grpc-Accept-Encoding", "Grpc-Timeout", "0n", false, false, true,
			true},
		{"application/grpc-web-text+proto", "Grpc-Encoding", "Grpc-Accept-Encoding", "Grpc-Timeout", "0n", false, true,
			true, true},
		{"application/connect+proto", "Connect-Content-Encoding", "Connect-Accept-Encoding", "Connect-Timeout-Ms", "0",
			false, true, false, false},
		{"application/connect+json", "Connect-Content-Encoding", "Connect-Accept-Encoding", "Connect-Timeout-Ms", "0",
			true, true, false, false},
	} {
		path := invokePath
		if form.streams {
			path = streamPath
		}
		add := func(name, path, body string, header ...string) {
			if form.text {
				body = base64.StdEncoding.EncodeToString([]byte(body))
			}
			all = append(all, webCase{form.typ + ": " + name, path, form.typ, body, header})
		}
		small, longer := encoded(form.json, request(gatewaytest.Echo, `{"a":1}`)), encoded(form.json, long)
		add("result", path, enveloped(0, small))
		add("failing tool", path, enveloped(0, encoded(form.json, request(gatewaytest.Fail, "{}"))))
		add("failing backend", path, enveloped(0, encoded(form.json, request(gatewaytest.Break, "{}"))))
		add("cut off", path, enveloped(0, encoded(form.json, request(gatewaytest.Cut, "{}"))))
		add("unknown fleet", path, enveloped(0, encoded(form.json, unknown)))
		add("unknown tool", path, enveloped(0, encoded(form.json, request("nosuch", "{}"))))
		add("long", path, enveloped(0, longer))
		add("long, packed", path, enveloped(0, longer), form.accept, "br, gzip")
		add("short, not packed", path, enveloped(0, small), form.accept, gz)
		add("packed request", path, enveloped(1, zipped(longer)), form.coding, gz)
		add("identity", path, enveloped(0, small), form.coding, "identity")
		add("empty packed request", path, enveloped(1, ""), form.coding, gz)
		add("packed without a header", path, enveloped(1, zipped(small)))
		add("not packed with a header", path, enveloped(0, small), form.coding, gz)
		add("broken packing", path, enveloped(1, "no gzip"), form.coding, gz)
		add("cut-off packing", path, enveloped(1, zipped(longer)[:60]), form.coding, gz)
		add("bomb", path, enveloped(1, zipped(strings.Repeat("\x00", 17<<20))), form.coding, gz)
		add("unknown packing", path, enveloped(0, small), form.coding, "lzma")
		add("nothing", path, "")
		add("empty message", path, enveloped(0, ""))
		add("part of a prefix", path, "\x00\x00\x00")
		add("part of a message", path, enveloped(0, small)[:8])
		add("part of a second message", path, enveloped(0, small)+enveloped(0, small)[:8])
		add("no message of its type", path, enveloped(0, "\xff\xff"))
		add("too long", path, "\x00\x7f\xff\xff\xff")
		add("flag 4", path, enveloped(4, ""))
		add("flag 4 behind a message", path, enveloped(0, small)+enveloped(4, "x"))
		add("end of Connect", path, enveloped(0, small)+enveloped(2, "{}"))
		add("end of Connect with metadata", path, enveloped(0, small)+enveloped(2, `{"metadata":{"a":["b"]}}`))
		add("end of Connect without JSON", path, enveloped(0, small)+enveloped(2, "x"))
		add("end of gRPC-Web", path, enveloped(0, small)+enveloped(0x80, "a: b\r\n"))
		add("end of gRPC-Web, empty", path, enveloped(0, small)+enveloped(0x80, ""))
		add("end of gRPC-Web, packed", path, enveloped(0, small)+enveloped(0x81, zipped("a: b\r\n")), form.coding, gz)
		add("end of gRPC-Web, malformed", path, enveloped(0, small)+enveloped(0x80, "ab\r\nc: d\r\n"))
		add("bytes behind the end", path, enveloped(0, small)+enveloped(0x80, "a: b\r\n")+"x")
		add("bytes behind the end of Connect", path, enveloped(0, small)+enveloped(2, "{}")+"x")
		add("no time", path, enveloped(0, small), form.timeout, form.zero)
		add("much time", path, enveloped(0, small), form.timeout,
			map[bool]string{true: "60S", false: "60000"}[form.web])
		add("a bad time", path, enveloped(0, small), form.timeout, "soon")
		add("binary metadata", path, enveloped(0, small), "X-A-Bin", "AAH+/w,AAE=")
		add("metadata not base64", path, enveloped(0, small), "X-A-Bin", "!")
		add("metadata not ASCII", path, enveloped(0, small), "X-A", "hünter2")
		add("another version", path, enveloped(0, small), "Connect-Protocol-Version", "2")
		add("unknown method", "/a.B/C", enveloped(0, small))
		add("upload", docpb.Capability_UploadInputArtifact_FullMethodName,
			enveloped(0, encoded(form.json, &docpb.UploadInputArtifactChunk{Data: []byte("one"), Filename: "f"}))+
				enveloped(0, encoded(form.json, &docpb.UploadInputArtifactChunk{Data: []byte("two")})),
			"X-Capability-Id", "caps")
		add("malformed second chunk", docpb.Capability_UploadInputArtifact_FullMethodName,
			enveloped(0, encoded(form.json, &docpb.UploadInputArtifactChunk{Data: []byte("one"), Filename: "f"}))+
				"\x00\x00", "X-Capability-Id", "caps")
		add("service of the gateway", checkPath, enveloped(0, map[bool]string{true: "{}"}[form.json]))
		if form.text {
			plain := func(body string) webCase {
				return webCase{form.typ + ": " + body, checkPath, form.typ, body, nil}
			}
			all = append(all, plain("AAAA!AA="), plain("AAAAAA"), plain("AAA=AAAA"), plain("AAAAAAA=AAAAAAA="),
				plain("AAAA"), plain("AAAA\nAAA="))
		}
	}
	return append(all, unaryCases(encoded, long)...)
}

// unaryCases returns requests of Connect without envelopes.
func unaryCases(encoded func(bool, proto.Message) string, long proto.Message) (all []webCase) {
	for _, json := range []bool{false, true} {
		typ := "application/proto"
		if json {
			typ = "application/json"
		}
		add := func(name, typ, path, body string, header ...string) {
			all = append(all, webCase{typ + " unary: " + name, path, typ, body, header})
		}
		small, longer := encoded(json, request(gatewaytest.Echo, `{"a":1}`)), encoded(json, long)
		add("result", typ, invokePath, small)
		add("failing tool", typ, invokePath, encoded(json, request(gatewaytest.Fail, "{}")))
		add("failing backend", typ, invokePath, encoded(json, request(gatewaytest.Break, "{}")))
		add("long, packed", typ, invokePath, longer, "Accept-Encoding", "gzip")
		add("packed request", typ, invokePath, zipped(longer), "Content-Encoding", "gzip")
		add("broken packing", typ, invokePath, "no gzip", "Content-Encoding", "gzip")
		add("cut-off packing", typ, invokePath, zipped(longer)[:60], "Content-Encoding", "gzip")
		add("bomb", typ, invokePath, zipped(strings.Repeat(" ", 17<<20)), "Content-Encoding", "gzip")
		add("empty packed request", typ, checkPath, "", "Content-Encoding", "gzip")
		add("unknown packing", typ, invokePath, small, "Content-Encoding", "br")
		add("too long", typ, invokePath, strings.Repeat(" ", 17<<20))
		add("large", typ, invokePath, encoded(json, request(gatewaytest.Echo, `"`+strings.Repeat("x", 100_000)+`"`)))
		add("empty", typ, checkPath, "")
		add("no message of its type", typ, invokePath, "\xff\xff")
		add("no time", typ, invokePath, small, "Connect-Timeout-Ms", "0")
		add("another version", typ, invokePath, small, "Connect-Protocol-Version", "2")
		add("binary metadata", typ, invokePath, small, "X-A-Bin", "AAH+/w,AAE=")
		add("metadata not base64", typ, invokePath, small, "X-A-Bin", "!")
		add("unknown method", typ, "/a.B/C", small)
		add("a stream", typ, streamPath, small)
		add("in capitals", strings.ToUpper(typ), checkPath, map[bool]string{true: "{}"}[json])
		add("charset", typ+"; charset=UTF-8", checkPath, map[bool]string{true: "{}"}[json])
		add("another charset", typ+"; charset=latin1", checkPath, map[bool]string{true: "{}"}[json])
	}
	return all
}

const webResponses = "testdata/web/responses.txt"

// TestWebResponses: the complete responses to requests in every form, valid and invalid, equal the file. They are the
// gateway's own, so each change needs a review. The flag -update-web writes the file.
func TestWebResponses(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	var got bytes.Buffer
	for _, c := range webCases(t) {
		texts := map[string]string{}
		for _, p := range protocols {
			client := p.client(f.gateway, t)
			for _, length := range []bool{true, false} {
				var body io.Reader = strings.NewReader(c.body)
				if !length {
					body = io.MultiReader(body)
				}
				texts[fmt.Sprint(p.name, ", length known: ", length)] = webResponse(t, client, f.gateway.URL(c.path), c,
					body)
			}
		}
		fmt.Fprintf(&got, "== %s\n", c.name)
		first := ""
		for _, key := range slices.Sorted(maps.Keys(texts)) {
			switch text := texts[key]; {
			case first == "":
				first = text
				got.WriteString(text + "\n")
			case text != first:
				fmt.Fprintf(&got, "-- %s\n%s\n", key, text)
			}
		}
	}
	if *updateWeb {
		check.Must(t, os.WriteFile(webResponses, got.Bytes(), 0o644))
		return
	}
	want, err := os.ReadFile(webResponses)
	check.Must(t, err)
	wanted := strings.Split(string(want), "\n== ")
	for i, text := range strings.Split(got.String(), "\n== ") {
		if i >= len(wanted) || text != wanted[i] {
			t.Errorf("got\n%s\nwant\n%s", text, wanted[min(i, len(wanted)-1)])
		}
	}
}

func webResponse(t *testing.T, client *http.Client, url string, c webCase, body io.Reader) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	check.Must(t, err)
	req.Header = http.Header{"Content-Type": {c.contentType}, "X-Request-Id": {"r"}, "Accept-Encoding": {"identity"}}
	for i := 0; i < len(c.header); i += 2 {
		req.Header[c.header[i]] = []string{c.header[i+1]}
	}
	resp, err := client.Do(req)
	check.Must(t, err)
	defer resp.Body.Close()
	var text strings.Builder
	fmt.Fprintln(&text, resp.StatusCode)
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		if name != "Date" && name != "Content-Length" && name != "Connection" {
			fmt.Fprintf(&text, "%s: %q\n", name, resp.Header[name])
		}
	}
	raw, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	if strings.HasPrefix(resp.Header.Get("Content-Type"), typeText) {
		raw = unbase64(t, raw)
	}
	if len(resp.Trailer) > 0 {
		fmt.Fprintf(&text, "trailer %v\n", resp.Trailer)
	}
	return text.String() + readable(t, resp.Header, raw)
}

const typeText = "application/grpc-web-text"

// unbase64 decodes base64 with padding inside.
func unbase64(t *testing.T, text []byte) (raw []byte) {
	t.Helper()
	for ; len(text) > 0; text = text[4:] {
		group, err := base64.StdEncoding.DecodeString(string(text[:4]))
		check.Must(t, err)
		raw = append(raw, group...)
	}
	return raw
}

// These parts of a response vary: the spaces of protojson, and the ids of uploads.
var (
	jsonSpaces = regexp.MustCompile(`([{,:]) `)
	uploadIDs  = regexp.MustCompile(`b1-[0-9]+|YjEt[0-9A-Za-z]+`)
)

// readable returns a body as text: its envelopes, decompressed and without the parts that vary.
func readable(t *testing.T, header http.Header, raw []byte) string {
	t.Helper()
	unzip := func(b []byte) []byte {
		z, err := gzip.NewReader(bytes.NewReader(b))
		check.Must(t, err)
		b, err = io.ReadAll(z)
		check.Must(t, err)
		return b
	}
	show := func(b []byte) string {
		b = uploadIDs.ReplaceAll(jsonSpaces.ReplaceAll(b, []byte("$1")), []byte("ID"))
		if s := fmt.Sprintf("%q", b); len(s) <= 400 {
			return s
		}
		return fmt.Sprintf("%.100q… (%d bytes)", b, len(b))
	}
	if header.Get("Content-Encoding") == "gzip" {
		raw = unzip(raw)
	}
	typ := header.Get("Content-Type")
	if !strings.HasPrefix(typ, "application/grpc-web") && !strings.HasPrefix(typ, "application/connect+") {
		return show(raw)
	}
	var text strings.Builder
	for len(raw) >= 5 {
		n := 5 + int(binary.BigEndian.Uint32(raw[1:]))
		data := raw[5:n]
		if raw[0]&1 != 0 {
			data = unzip(data)
		}
		fmt.Fprintf(&text, "%#02x %s\n", raw[0], show(data))
		raw = raw[n:]
	}
	if len(raw) > 0 {
		fmt.Fprintf(&text, "rest %q\n", raw)
	}
	return text.String()
}
