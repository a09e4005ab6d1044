package difftest

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// The dialects, as suffixes of the fleets' names.
const (
	live   = "live"
	doc    = "doc"
	legacy = "legacy"
)

// Paths of calls of tools, by dialect.
var (
	invokePaths = map[string]string{
		live: "/selu.capability.v1.Capability/Invoke", doc: "/selu.capability.Capability/Invoke",
		legacy: "/selu.capability.v1.CapabilityService/Invoke",
	}
	streamPaths = map[string]string{live: "/selu.capability.v1.Capability/StreamInvoke",
		doc: "/selu.capability.Capability/StreamInvoke"}
	downloadPaths = map[string]string{live: "/selu.capability.v1.Capability/DownloadOutputArtifact",
		doc: "/selu.capability.Capability/DownloadOutputArtifact"}
	uploadPaths = map[string]string{live: "/selu.capability.v1.Capability/UploadInputArtifact",
		doc: "/selu.capability.Capability/UploadInputArtifact"}
)

// pack is the compression of the first message.
type pack uint8

const (
	plain      pack = iota
	packed          // one gzip member
	twice           // two members, the message cut between them
	overlaid        // a member with the message, followed by one with overlay
	trailed         // one member, followed by bytes
	emptyFirst      // an empty member before
	lying           // compressed flag on uncompressed data
	packings        // number of kinds
)

// field is a header field.
type field struct{ name, value string }

// attempt is one call in wire format.
type attempt struct {
	fleet  string
	path   string
	header []field  // besides :method, :scheme, :path, :authority, the credential and the ids
	parts  [][]byte // of the first message
	pack   pack
	more   [][]byte // further messages
	named  bool     // a header names the fleet
	json   bool     // JSON over HTTP: the message is the body
}

// plainHeader returns the header of every gRPC client.
func plainHeader() []field {
	return []field{{"content-type", "application/grpc"}, {"te", "trailers"}}
}

func (a *attempt) message() []byte { return slices.Concat(a.parts...) }

// body returns all DATA.
func (a *attempt) body() []byte {
	msg := a.message()
	if a.json {
		return msg
	}
	flag := byte(1)
	switch a.pack {
	case plain, packings:
		flag = 0
	case packed:
		msg = zip(msg)
	case twice:
		msg = slices.Concat(zip(msg[:len(msg)/2]), zip(msg[len(msg)/2:]))
	case overlaid:
		msg = slices.Concat(zip(msg), zip(overlay))
	case trailed:
		msg = append(zip(msg), 0, 0, 0)
	case emptyFirst:
		msg = slices.Concat(zip(nil), zip(msg))
	case lying:
	}
	frame := rawhttp2.Message(msg)
	frame[0] = flag
	for _, m := range a.more {
		frame = append(frame, rawhttp2.Message(m)...)
	}
	return frame
}

// overlay is a message with another tool, artifact and session than the earlier messages.
var overlay = slices.Concat(text(1, "blocked"), text(4, "mine"))

func zip(p []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(p) // a Buffer does not fail
	_ = w.Close()
	return b.Bytes()
}

// fields returns the header fields of the request in order, as names and values.
func (a *attempt) fields(authority, key, id string) []string {
	out := []string{":method", "POST", ":scheme", "http", ":path", a.path, ":authority", authority}
	if a.named {
		out = append(out, "x-capability-id", a.fleet)
	}
	out = append(out, "authorization", "Bearer "+key, "x-request-id", id)
	for _, f := range a.header {
		out = append(out, f.name, f.value)
	}
	if a.pack != plain {
		out = append(out, "grpc-encoding", "gzip")
	}
	return out
}

// has reports whether the header has a field.
func (a *attempt) has(name string) bool {
	return slices.ContainsFunc(a.header, func(f field) bool { return f.name == name })
}

func (a *attempt) clone() *attempt {
	c := *a
	c.header, c.parts, c.more = slices.Clone(a.header), slices.Clone(a.parts), slices.Clone(a.more)
	return &c
}

// String formats the call with everything needed to repeat it.
func (a *attempt) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "fleet %s, path %q", a.fleet, a.path)
	for _, f := range a.header {
		fmt.Fprintf(&b, ", %s: %q", f.name, f.value)
	}
	fmt.Fprintf(&b, ", named %v, compressed %d\n  message %s", a.named, a.pack, hex.EncodeToString(a.message()))
	for _, m := range a.more {
		fmt.Fprintf(&b, "\n  then %s", hex.EncodeToString(m))
	}
	fmt.Fprintf(&b, "\n  DATA %s", hex.EncodeToString(a.body()))
	return b.String()
}

// text returns a length-delimited field in the canonical encoding.
func text(number protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

// entry returns an entry of a legacy context.
func entry(key, value string) []byte {
	return text(3, string(slices.Concat(text(1, key), text(2, value))))
}
