package relay_test

import (
	"bytes"
	"testing"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// TestMalformedRequests: each is a stream error PROTOCOL_ERROR (RFC 9113 §8.1.1), and no backend receives it.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, rule string
		fields     []string
	}{
		{"upper case", "RFC 9113 §8.2.1", request(methodEmpty, "X-Upper", "a")},
		{"upper case in a known name", "RFC 9113 §8.2.1", request(methodEmpty, "Content-Length", "0")},
		{"empty name", "RFC 9113 §8.2.1", request(methodEmpty, "", "a")},
		{"colon alone", "RFC 9113 §8.2.1", request(methodEmpty, ":", "a")},
		{"space in a name", "RFC 9113 §8.2.1", request(methodEmpty, "a b", "a")},
		{"colon in a name", "RFC 9113 §8.2.1", request(methodEmpty, "a:b", "a")},
		{"control character in a name", "RFC 9113 §8.2.1", request(methodEmpty, "a\x01", "a")},
		{"byte above ASCII in a name", "RFC 9113 §8.2.1", request(methodEmpty, "\xc3\xa4", "a")},
		{"NUL in a value", "RFC 9113 §8.2.1", request(methodEmpty, "x", "a\x00b")},
		{"CR in a value", "RFC 9113 §8.2.1", request(methodEmpty, "x", "a\rb")},
		{"LF in a value", "RFC 9113 §8.2.1", request(methodEmpty, "x", "a\nb: c")},
		{"DEL in a value", "RFC 9110 §5.5", request(methodEmpty, "x", "a\x7f")},
		{"space before a value", "RFC 9113 §8.2.1", request(methodEmpty, "x", " a")},
		{"tab behind a value", "RFC 9113 §8.2.1", request(methodEmpty, "x", "a\t")},

		{"connection", "RFC 9113 §8.2.2", request(methodEmpty, "connection", "close")},
		{"keep-alive", "RFC 9113 §8.2.2", request(methodEmpty, "keep-alive", "1")},
		{"proxy-connection", "RFC 9113 §8.2.2", request(methodEmpty, "proxy-connection", "close")},
		{"transfer-encoding", "RFC 9113 §8.2.2", request(methodEmpty, "transfer-encoding", "chunked")},
		{"upgrade", "RFC 9113 §8.2.2", request(methodEmpty, "upgrade", "h2c")},
		{"te: gzip", "RFC 9113 §8.2.2", request(methodEmpty, "te", "gzip")},
		{"te: trailers, gzip", "RFC 9113 §8.2.2", request(methodEmpty, "te", "trailers, gzip")},

		{"unknown pseudo-header", "RFC 9113 §8.3", append([]string{":unknown", "a"}, request(methodEmpty)...)},
		{"protocol without CONNECT", "RFC 8441 §4", append([]string{":protocol", "websocket"},
			request(methodEmpty)...)},
		{"status in a request", "RFC 9113 §8.3", append([]string{":status", "200"}, request(methodEmpty)...)},
		{"pseudo-header behind others", "RFC 9113 §8.3", []string{":method", "GET", ":scheme", "http", "x", "y",
			":path", "/"}},
		{"method twice", "RFC 9113 §8.3", append([]string{":method", "POST"}, request(methodEmpty)...)},
		{"path twice", "RFC 9113 §8.3", append([]string{":path", methodEmpty}, request(methodEmpty)...)},
		{"scheme twice", "RFC 9113 §8.3", append([]string{":scheme", "http"}, request(methodEmpty)...)},
		{"authority twice", "RFC 9113 §8.3", append([]string{":authority", "test"}, request(methodEmpty)...)},
		{"no method", "RFC 9113 §8.3.1", []string{":scheme", "http", ":path", "/"}},
		{"no scheme", "RFC 9113 §8.3.1", []string{":method", "GET", ":path", "/"}},
		{"no path", "RFC 9113 §8.3.1", []string{":method", "GET", ":scheme", "http"}},
		{"empty method", "RFC 9110 §9.1", []string{":method", "", ":scheme", "http", ":path", "/"}},
		{"space in the method", "RFC 9110 §9.1", []string{":method", "GET /", ":scheme", "http", ":path", "/"}},
		{"empty scheme", "RFC 3986 §3.1", []string{":method", "GET", ":scheme", "", ":path", "/"}},
		{"empty path", "RFC 9113 §8.3.1", request("")},
		{"path without its slash", "RFC 9113 §8.3.1", request("grpc.testing.TestService/EmptyCall")},
		{"path with a host", "RFC 9113 §8.3.1", request("http://test/grpc.testing.TestService/EmptyCall")},
		{"asterisk", "RFC 9113 §8.3.1", request("*")},
		{"space in the path", "RFC 9113 §8.3.1", request(methodEmpty + " HTTP/1.1")},
		{"tab in the path", "RFC 9113 §8.3.1", request(methodEmpty + "\t")},
		{"fragment in the path", "RFC 9113 §8.3.1", request(methodEmpty + "#a")},
		{"user in the authority", "RFC 9113 §8.3.1", []string{":method", "GET", ":scheme", "http", ":path", "/",
			":authority", "user@test"}},
		{"path in the authority", "RFC 9113 §8.3.1", []string{":method", "GET", ":scheme", "http", ":path", "/",
			":authority", "test/a"}},
		{"host that differs", "RFC 9113 §8.3.1", request(methodEmpty, "host", "other")},
		{"host twice", "RFC 9110 §7.2", request(methodEmpty, "host", "test", "host", "test")},
		{"CONNECT", "RFC 9113 §8.5: not offered", []string{":method", "CONNECT", ":authority", "test:443"}},
		{"CONNECT with a path", "RFC 9113 §8.5", []string{":method", "CONNECT", ":scheme", "http", ":path", "/",
			":authority", "test:443"}},

		{"content-length of letters", "RFC 9110 §8.6", request(methodEmpty, "content-length", "x")},
		{"content-length with a sign", "RFC 9110 §8.6", request(methodEmpty, "content-length", "+5")},
		{"content-length below zero", "RFC 9110 §8.6", request(methodEmpty, "content-length", "-1")},
		{"empty content-length", "RFC 9110 §8.6", request(methodEmpty, "content-length", "")},
		{"content-length beyond all numbers", "RFC 9110 §8.6",
			request(methodEmpty, "content-length", "99999999999999999999")},
		{"content-length as a list", "RFC 9110 §8.6", request(methodEmpty, "content-length", "5, 5")},
		{"content-length twice", "RFC 9110 §8.6", request(methodEmpty, "content-length", "5", "content-length", "5")},
		{"two content-lengths", "RFC 9110 §8.6", request(methodEmpty, "content-length", "5", "content-length", "6")},
		{"content-length of a body that does not come", "RFC 9113 §8.1.1", request(methodEmpty, "content-length", "5")},
	}
	g := newRig(t, relay.Config{})
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := g.attacker()
			check.Must(t, c.Write(rawhttp2.Headers(1, true, c.Block(tc.fields...))))
			code, err := c.WaitReset(1)
			check.Must(t, err)
			if code != rawhttp2.ProtocolError {
				t.Errorf("reset with error %d, want PROTOCOL_ERROR (%s)", code, tc.rule)
			}
			wantEmptyCall(t, c, 3)
		})
	}
}

// TestWrongBodies: bodies whose length differs from content-length, and frames that must not follow a body.
func TestWrongBodies(t *testing.T) {
	t.Parallel()
	open := func(c *rawhttp2.Conn, more ...string) rawhttp2.Frame {
		return rawhttp2.Headers(1, false, c.Block(request("/raw/never", more...)...))
	}
	cases := map[string]struct {
		frames func(*rawhttp2.Conn) []rawhttp2.Frame
		code   uint32
	}{
		"longer": {func(c *rawhttp2.Conn) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c, "content-length", "5"), rawhttp2.Data(1, false, make([]byte, 6))}
		}, rawhttp2.ProtocolError},
		"shorter": {func(c *rawhttp2.Conn) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c, "content-length", "5"), rawhttp2.Data(1, true, make([]byte, 4))}
		}, rawhttp2.ProtocolError},
		"shorter, ended by trailers": {func(c *rawhttp2.Conn) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c, "content-length", "5"), rawhttp2.Data(1, false, make([]byte, 4)),
				rawhttp2.Headers(1, true, c.Block("x", "y"))}
		}, rawhttp2.ProtocolError},
		"trailers with a pseudo-header": {func(c *rawhttp2.Conn) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c), rawhttp2.Headers(1, true, c.Block(":path", "/other"))}
		}, rawhttp2.ProtocolError},
		"trailers that do not end": {func(c *rawhttp2.Conn) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c), rawhttp2.Headers(1, false, c.Block("x", "y"))}
		}, rawhttp2.ProtocolError},
		"DATA after the end": {func(c *rawhttp2.Conn) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c), rawhttp2.Data(1, true, nil), rawhttp2.Data(1, true, nil)}
		}, rawhttp2.StreamClosed},
		"HEADERS after the end": {func(c *rawhttp2.Conn) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c), rawhttp2.Data(1, true, nil), rawhttp2.Headers(1, true, c.Block("x", "y"))}
		}, rawhttp2.StreamClosed},
		"window exceeded": {func(c *rawhttp2.Conn) []rawhttp2.Frame {
			f := []rawhttp2.Frame{rawhttp2.Headers(1, false, c.Block(request("/raw/never")...))}
			for range 9 { // more than the relay's buffer and the backend's window
				f = append(f, rawhttp2.Data(1, false, make([]byte, 16<<10)))
			}
			return f
		}, rawhttp2.FlowControlError},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, relay.Config{})
			g.sink()
			c := g.attacker()
			check.Must(t, c.Write(tc.frames(c)...))
			code, err := c.WaitReset(1)
			check.Must(t, err)
			if code != tc.code {
				t.Errorf("reset with error %d, want %d", code, tc.code)
			}
			wantEmptyCall(t, c, 3)
		})
	}
}

// TestForwardedRequest: the backend gets the path byte for byte, and no field that it could take for part of a
// response.
func TestForwardedRequest(t *testing.T) {
	t.Parallel()
	g := newRig(t, relay.Config{})
	const path = "/raw/%2e%2E/Sel%75.Capability//Invoke?a=%20b;c"
	body := rawhttp2.Message([]byte("hello"))
	c := g.attacker()
	check.Must(t, c.Write(
		rawhttp2.Headers(1, false, c.Block(request(path, "grpc-status", "0", "grpc-message", "fine",
			"grpc-status-details-bin", "AAAA",
			"x-kept", "yes", "host", "test", "content-length", "10")...)),
		rawhttp2.Data(1, false, body),
		rawhttp2.Headers(1, true, c.Block("x-trailer", "a", "grpc-status", "0")),
	))
	b := g.backend()
	f, err := b.Wait(func(f rawhttp2.Frame) bool { return f.Type == rawhttp2.TypeHeaders })
	check.Must(t, err)
	got, err := b.Fields(f.Payload)
	check.Must(t, err)
	want := map[string]string{":method": "POST", ":scheme": "http", ":path": path, ":authority": "test", "host": "test",
		"content-type": "application/grpc", "te": "trailers", "x-kept": "yes", "content-length": "10"}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %q, want %q", name, got[name], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the backend got %v", got)
	}
	var data []byte
	for !f.Has(rawhttp2.EndStream) {
		f, err = b.Wait(func(f rawhttp2.Frame) bool { return f.Stream == 1 })
		check.Must(t, err)
		if f.Type != rawhttp2.TypeData {
			t.Fatalf("the backend got %v behind the headers", f)
		}
		data = append(data, f.Payload...)
	}
	if !bytes.Equal(data, body) {
		t.Errorf("the backend got %q, want %q", data, body)
	}
}

// TestPathsAreNotDecoded: a path that is equal to the method's only after decoding names another method.
func TestPathsAreNotDecoded(t *testing.T) {
	t.Parallel()
	g := newRig(t, relay.Config{})
	c := g.attacker()
	for i, path := range []string{
		"/grpc.testing.TestService/%45mptyCall", "/grpc%2etesting.TestService/EmptyCall",
		"/x/../grpc.testing.TestService/EmptyCall",
		"//grpc.testing.TestService/EmptyCall", methodEmpty + "/", methodEmpty + "?a=b",
		"/GRPC.testing.TestService/EmptyCall",
	} {
		id := uint32(2*i + 1)
		check.Must(t, c.Write(rawhttp2.Headers(id, false, c.Block(request(path)...)),
			rawhttp2.Data(id, true, rawhttp2.Message(nil))))
		r, err := c.WaitResponse(id)
		check.Must(t, err)
		if r.Status() != "12" {
			t.Errorf("%s: %v, want UNIMPLEMENTED", path, r)
		}
	}
}

// TestCompressedFirstMessage: a compressed first message is forwarded unchanged, with its flag.
func TestCompressedFirstMessage(t *testing.T) {
	t.Parallel()
	g := newRig(t, relay.Config{})
	got := make(chan relay.Message, 1)
	g.handler.message = func(s *relay.Stream, m relay.Message) {
		m.Data = bytes.Clone(m.Data)
		got <- m
		s.Refuse(relay.Status{Code: 9})
	}
	c := g.attacker()
	msg := rawhttp2.Message([]byte("\x1f\x8b"))
	msg[0] = 1
	check.Must(t, c.Write(rawhttp2.Headers(1, false, c.Block(request("/read/x", "grpc-encoding", "gzip")...)),
		rawhttp2.Data(1, true, msg)))
	r, err := c.WaitResponse(1)
	check.Must(t, err)
	if r.Status() != "9" {
		t.Fatal(r)
	}
	if m := check.Received(t, got, "the result"); !m.Compressed || string(m.Data) != "\x1f\x8b" {
		t.Errorf("message %+v", m)
	}
}
