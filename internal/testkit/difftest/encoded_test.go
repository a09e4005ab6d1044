package difftest

import (
	"encoding/base64"
	"encoding/hex"
	"flag"
	"iter"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// TestEncodedMessages sends the output of encoders that are not clients: protoc --encode, and C# in
// csharp/messages.txt.
func TestEncodedMessages(t *testing.T) {
	j := newJournal()
	w := &deployment{journal: j, backends: startGo(t, j)[:1]}
	w.gateway = startGateway(t, w.backends)
	t.Run("protoc --encode", func(t *testing.T) {
		for _, d := range []string{live, doc, legacy} {
			for _, s := range shapes("grpcgo-"+d, d) {
				if s.Method == "Invoke" && len(s.Unknown) == 0 { // the text format has no unknown fields
					s.Dialect = d
					w.sendEncoded(t, &s, protoc(t, &s))
				}
			}
		}
	})
	t.Run("C#", func(t *testing.T) {
		for s, msg := range csharp(t) {
			w.sendEncoded(t, &s, msg)
		}
	})
}

// sendEncoded sends an encoded message and compares it with the backend's report.
func (w *deployment) sendEncoded(t *testing.T, s *spoken, msg []byte) {
	t.Helper()
	c := &client{w: w}
	defer c.close()
	a := &attempt{fleet: "grpcgo-" + s.Dialect, path: invokePaths[s.Dialect], header: plainHeader(), named: true,
		parts: [][]byte{msg}}
	if s.Gzip {
		a.pack = packed
	}
	id, status := c.send(a, w.gateway.ours)
	if status != "0" {
		t.Errorf("%v: status %s", s, status)
		return
	}
	s.Metadata = map[string]string{"x-request-id": id}
	w.compare(t, s)
}

// protoc encodes a message in the text format.
func protoc(t *testing.T, s *spoken) []byte {
	t.Helper()
	file := map[string]string{live: "selu/capability/v1/capability.proto", doc: "selu/capability/capability.proto",
		legacy: "selu/legacy/legacy.proto"}[s.Dialect]
	cmd := exec.Command(program(t, "bin/java/protoc"), "-I"+program(t, "proto"),
		"--encode="+string(s.request().ProtoReflect().Descriptor().FullName()), file)
	cmd.Stdin = strings.NewReader(prototext.Format(s.request()))
	msg, err := cmd.Output()
	check.Must(t, err)
	return msg
}

// request returns the intended message.
func (s *spoken) request() proto.Message {
	switch s.Dialect {
	case live:
		return &livepb.InvokeRequest{ToolName: s.Tool, ArgsJson: s.Args, ConfigJson: s.Config, SessionId: s.Session,
			CapabilityId: s.Capability, ThreadId: s.Thread}
	case doc:
		return &docpb.InvokeRequest{ToolName: s.Tool, ArgsJson: s.Args, ConfigJson: s.Config, SessionId: s.Session,
			CapabilityId: s.Capability, ThreadId: s.Thread}
	}
	return &legacypb.InvokeRequest{ToolName: s.Tool, Parameters: string(s.Args), Context: s.Context}
}

// csharp returns a line of csharp/messages.txt: fields of a message, and the message in hex.
func csharp(t *testing.T) iter.Seq2[spoken, []byte] {
	t.Helper()
	text, err := os.ReadFile("csharp/messages.txt")
	check.Must(t, err)
	return func(yield func(spoken, []byte) bool) {
		for line := range strings.Lines(string(text)) {
			fields, digits, _ := strings.Cut(strings.TrimSpace(line), " = ")
			msg, err := hex.DecodeString(digits)
			check.Must(t, err)
			if !yield(unwritten(t, fields), msg) {
				return
			}
		}
	}
}

// written formats a message for csharp/Encode.cs.
func (s *spoken) written() string {
	fields := [][]byte{[]byte(s.Dialect), []byte(s.Tool), s.Args, s.Config, []byte(s.Session), []byte(s.Capability),
		[]byte(s.Thread), s.Unknown}
	for _, name := range slices.Sorted(maps.Keys(s.Context)) {
		fields = append(fields, []byte(name), []byte(s.Context[name]))
	}
	var words []string
	for _, f := range fields {
		words = append(words, base64.StdEncoding.EncodeToString(f))
	}
	return strings.Join(words, " ")
}

// unwritten parses the format of written.
func unwritten(t *testing.T, line string) spoken {
	t.Helper()
	var fields [][]byte
	for word := range strings.SplitSeq(line, " ") {
		f, err := base64.StdEncoding.DecodeString(word)
		check.Must(t, err)
		fields = append(fields, f)
	}
	s := spoken{
		Dialect: string(fields[0]), Tool: string(fields[1]), Args: fields[2], Config: fields[3],
		Session:    string(fields[4]),
		Capability: string(fields[5]), Thread: string(fields[6]), Unknown: fields[7],
	}
	return s
}

// TestCSharpInput prints the input of csharp/Encode.cs: go test ./internal/testkit/difftest -run
// CSharpInput -csharp FILE.
func TestCSharpInput(t *testing.T) {
	var lines strings.Builder
	for _, d := range []string{live, doc, legacy} {
		for _, s := range shapes("grpcgo-"+d, d) {
			if s.Method == "Invoke" && !s.Gzip && len(s.Args) < 1<<16 {
				lines.WriteString(s.written() + "\n")
			}
		}
	}
	if *input != "" {
		check.Must(t, os.WriteFile(*input, []byte(lines.String()), 0o600))
		return
	}
	text, err := os.ReadFile("csharp/messages.txt")
	check.Must(t, err)
	var committed strings.Builder
	for line := range strings.Lines(string(text)) {
		fields, _, _ := strings.Cut(line, " = ")
		committed.WriteString(fields + "\n")
	}
	if committed.String() != lines.String() {
		t.Error("csharp/messages.txt lacks messages of shapes: see csharp/README.md")
	}
}

var input = flag.String("csharp", "", "file to which TestCSharpInput writes the input of csharp/Encode.cs")
