package relay

import (
	"strings"

	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/gateway/relay/hpack"
)

// Bits of a field's tag, which classify computes once per interned field from its name and value.
const (
	nameOther uint32 = iota
	nameMethod
	namePath
	nameScheme
	nameAuthority
	nameStatus
	nameContentType
	nameContentLength
	nameHost
	nameTimeout  // grpc-timeout
	nameEncoding // grpc-encoding
	nameTE
	nameGRPCStatus
	nameGRPCMessage
	nameGRPCDetails // grpc-status-details-bin

	nameMask  uint32 = 0xff
	tagPseudo uint32 = 1 << 8
	tagBad    uint32 = 1 << 9  // malformed in any message (RFC 9113 §8.2)
	tagGRPC   uint32 = 1 << 10 // content-type application/grpc, alone or with a +subtype
	tagHidden uint32 = 1 << 11 // Forwarding.OmitHeader reports it
	tagProto  uint32 = 1 << 12 // content-type application/grpc, alone or with +proto
	tagNoHost uint32 = 1 << 13 // an invalid authority or host, which is only accepted at a unix socket

	// oneEach is the set of names that a request may have only once, because some implementations read the first value
	// and some the last. The relay itself rejects a second host or content-length.
	oneEach uint32 = 1<<nameContentType | 1<<nameTimeout | 1<<nameEncoding | 1<<nameTE
)

// classify is the classify function of the hpack.Interner.
func (r *Relay) classify(name, value string) uint32 {
	tag := classify(name, value)
	if tag&^setMask == nameOther && r.cfg.Forwarding.OmitHeader != nil && r.cfg.Forwarding.OmitHeader(name) {
		tag |= tagHidden
	}
	return tag
}

// classify returns the tag of a field. It must not retain its arguments.
func classify(name, value string) uint32 { return kindOf(name, value) | bitOf(name)<<setShift }

// kindOf returns the tag of a field without its bit of setOf.
func kindOf(name, value string) uint32 {
	if !validName(name) || !validValue(value) {
		return tagBad
	}
	switch name {
	case ":method":
		return tagPseudo | nameMethod | badUnless(isToken(value))
	case ":path":
		return tagPseudo | namePath | badUnless(isTarget(value))
	case ":scheme":
		return tagPseudo | nameScheme | badUnless(isToken(value))
	case ":authority":
		return tagPseudo | nameAuthority | noHostUnless(isHost(value))
	case "host":
		return nameHost | noHostUnless(isHost(value))
	case ":status":
		return tagPseudo | nameStatus
	case "content-type":
		switch {
		case value == "application/grpc", value == "application/grpc+proto":
			return nameContentType | tagGRPC | tagProto
		case isGRPC(value):
			return nameContentType | tagGRPC
		}
		return nameContentType
	case "content-length":
		return nameContentLength
	case "grpc-timeout":
		return nameTimeout
	case "grpc-encoding":
		return nameEncoding
	case "grpc-status":
		return nameGRPCStatus
	case "grpc-message":
		return nameGRPCMessage
	case "grpc-status-details-bin":
		return nameGRPCDetails
	case "te":
		return nameTE | badUnless(value == "trailers")
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		return tagBad // RFC 9113 §8.2.2
	}
	if name[0] == ':' {
		return tagPseudo | tagBad
	}
	return nameOther
}

// isGRPC distinguishes gRPC from gRPC-Web and other content types.
func isGRPC(contentType string) bool {
	rest, ok := strings.CutPrefix(contentType, "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// nameByte marks the characters of a field name: token characters of RFC 9110 §5.6.2 without upper case (RFC 9113
// §8.2.1).
var nameByte = func() (t [256]bool) {
	for _, b := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz") {
		t[b] = true
	}
	return t
}()

func validName(name string) bool {
	rest := strings.TrimPrefix(name, ":")
	if rest == "" {
		return false
	}
	for i := range len(rest) {
		if !nameByte[rest[i]] {
			return false
		}
	}
	return true
}

func validValue(value string) bool {
	for i := range len(value) {
		if b := value[i]; b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	n := len(value)
	return n == 0 || value[0] != ' ' && value[0] != '\t' && value[n-1] != ' ' && value[n-1] != '\t'
}

func badUnless(good bool) uint32 {
	if good {
		return 0
	}
	return tagBad
}

func noHostUnless(good bool) uint32 {
	if good {
		return 0
	}
	return tagNoHost
}

// isToken reports whether v is a token (RFC 9110 §5.6.2), which includes all schemes (RFC 3986 §3.1).
func isToken(v string) bool {
	for i := range len(v) {
		if b := v[i]; !nameByte[b] && (b < 'A' || b > 'Z') {
			return false
		}
	}
	return v != ""
}

// isTarget reports whether v has no characters that would end a path or query elsewhere: white space, control
// characters and the fragment, which is never sent (RFC 9113 §8.3.1, RFC 9110 §7.1).
func isTarget(v string) bool {
	for i := range len(v) {
		if b := v[i]; b <= ' ' || b == '#' || b == 0x7f {
			return false
		}
	}
	return v != ""
}

// isHost reports whether v may be a host. User information is not allowed (RFC 9113 §8.3.1).
func isHost(v string) bool {
	return v == "" || isTarget(v) && !strings.ContainsAny(v, "@/?")
}

// constFields holds the fields that the relay itself sends.
type constFields struct {
	status200, status405, status503 hpack.Field
	contentType, post, te           hpack.Field
	schemeHTTP, schemeHTTPS         hpack.Field
	authority, host                 hpack.Field
	grpcStatus                      [17]hpack.Field
}

func newConstFields(in *hpack.Interner) constFields {
	c := constFields{
		status200:   in.Intern(":status", "200"),
		post:        in.Intern(":method", "POST"),
		te:          in.Intern("te", "trailers"),
		status405:   in.Intern(":status", "405"),
		status503:   in.Intern(":status", "503"),
		contentType: in.Intern("content-type", "application/grpc"),
		schemeHTTP:  in.Intern(":scheme", "http"),
		schemeHTTPS: in.Intern(":scheme", "https"),
		authority:   in.Intern(":authority", accept.DefaultAuthority),
		host:        in.Intern("host", accept.DefaultAuthority),
	}
	for i, code := range strings.Fields("0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16") {
		c.grpcStatus[i] = in.Intern("grpc-status", code)
	}
	return c
}
