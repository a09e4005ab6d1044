package dialect_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// frame puts gRPC's prefix before a message.
func frame(flag byte, msg []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(msg))), msg...)
}

func encoded(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	check.Must(t, err)
	return frame(0, b)
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	big := []byte(strings.Repeat("\x1a\x05error", 1000)) // looks like fields, and is data
	chunk := func(c *docpb.InvokeChunk) []byte { return encoded(t, c) }
	for _, tt := range []struct {
		name string
		m    call.Method
		d    call.Dialect
		body []byte
		want dialect.Outcome
	}{
		{"result", call.Invoke, call.Doc, encoded(t, &docpb.InvokeResponse{ResultJson: big}), dialect.OK},
		{"empty result", call.Invoke, call.Live, encoded(t, &livepb.InvokeResponse{}), dialect.OK},
		{"tool error", call.Invoke, call.Live, encoded(t, &livepb.InvokeResponse{ResultJson: big, Error: "no"}),
			dialect.ToolError},
		{"error taken back", call.Invoke, call.Doc, frame(0, wire(str(2, "no"), str(2, ""))), dialect.OK},
		{"error of another type", call.Invoke, call.Doc, frame(0, varint(2, 1)), dialect.OK},
		{"error in a group", call.Invoke, call.Doc,
			frame(0, wire(tag(9, protowire.StartGroupType), str(2, "x"), tag(9, protowire.EndGroupType))), dialect.OK},
		{"fixed fields", call.Invoke, call.Doc,
			frame(0, wire(tag(7, protowire.Fixed32Type), []byte("\x12\x01aa"), tag(8, protowire.Fixed64Type),
				[]byte("\x12\x01a\x12\x01a\x12\x01"))), dialect.OK},
		{"nothing", call.Invoke, call.Doc, nil, dialect.OutcomeUnknown},
		{"half a prefix", call.Invoke, call.Doc, []byte{0, 0}, dialect.CutOff},
		{"half a message", call.Invoke, call.Doc, encoded(t, &docpb.InvokeResponse{Error: "half"})[:8], dialect.CutOff},
		{"compressed", call.Invoke, call.Doc, frame(1, []byte("????")), dialect.OutcomeUnknown},
		{"malformed", call.Invoke, call.Doc, frame(0, []byte{0x0a, 9, 'x'}), dialect.OutcomeUnknown},
		{"field 0", call.Invoke, call.Doc, frame(0, []byte{0x02, 0}), dialect.OutcomeUnknown},
		{"wire type 7", call.Invoke, call.Doc, frame(0, []byte{0x0f}), dialect.OutcomeUnknown},
		{"long varint", call.Invoke, call.Doc,
			frame(0, wire(tag(9, protowire.VarintType), []byte(strings.Repeat("\x80", 10)), []byte{1})),
			dialect.OutcomeUnknown},
		{"open group", call.Invoke, call.Doc, frame(0, tag(9, protowire.StartGroupType)), dialect.OutcomeUnknown},
		{"closed group", call.Invoke, call.Doc, frame(0, tag(9, protowire.EndGroupType)), dialect.OutcomeUnknown},
		{"groups without end", call.Invoke, call.Doc,
			frame(0, wire(bytes.Repeat(tag(9, protowire.StartGroupType), protowire.DefaultRecursionLimit),
				bytes.Repeat(tag(9, protowire.EndGroupType), protowire.DefaultRecursionLimit))),
			dialect.OutcomeUnknown},
		{"stream", call.StreamInvoke, call.Doc,
			wire(chunk(&docpb.InvokeChunk{Data: big}), chunk(&docpb.InvokeChunk{Done: true})), dialect.OK},
		{"stream without done", call.StreamInvoke, call.Live,
			wire(chunk(&docpb.InvokeChunk{Data: big}), chunk(&docpb.InvokeChunk{Data: big})), dialect.CutOff},
		{"stream with done too early", call.StreamInvoke, call.Live,
			wire(chunk(&docpb.InvokeChunk{Done: true}), chunk(&docpb.InvokeChunk{})), dialect.CutOff},
		{"stream with data after done", call.StreamInvoke, call.Live,
			wire(chunk(&docpb.InvokeChunk{Data: []byte("ab"), Done: true}),
				chunk(&docpb.InvokeChunk{Data: []byte("x")})),
			dialect.CutOff},
		{"stream of nothing", call.StreamInvoke, call.Live, nil, dialect.CutOff},
		{"stream with an error", call.StreamInvoke, call.Doc,
			wire(chunk(&docpb.InvokeChunk{Data: big}), chunk(&docpb.InvokeChunk{Error: "no"})), dialect.ToolError},
		{"stream with an error and done", call.StreamInvoke, call.Doc,
			wire(chunk(&docpb.InvokeChunk{Error: "no"}), chunk(&docpb.InvokeChunk{Done: true})), dialect.ToolError},
		{"stream partly compressed", call.StreamInvoke, call.Doc,
			wire(frame(1, []byte("x")), chunk(&docpb.InvokeChunk{Done: true})), dialect.OutcomeUnknown},
		{"stream partly compressed with an error", call.StreamInvoke, call.Doc,
			wire(frame(1, []byte("x")), chunk(&docpb.InvokeChunk{Error: "no"})), dialect.ToolError},
		{"download", call.DownloadOutputArtifact, call.Live,
			encoded(t, &livepb.ArtifactChunk{Data: big, Filename: "f", Done: true}), dialect.OK},
		{"download cut off", call.DownloadOutputArtifact, call.Doc,
			encoded(t, &docpb.ArtifactChunk{Data: big, MimeType: "m"}), dialect.CutOff},
		{"download error", call.DownloadOutputArtifact, call.Doc,
			encoded(t, &docpb.ArtifactChunk{Done: true, Error: "gone"}), dialect.ToolError},
		{"doc upload", call.UploadInputArtifact, call.Doc,
			encoded(t, &docpb.UploadInputArtifactResponse{CapabilityArtifactId: "i"}), dialect.OK},
		{"doc upload error", call.UploadInputArtifact, call.Doc,
			encoded(t, &docpb.UploadInputArtifactResponse{Error: "e"}), dialect.ToolError},
		{"live upload", call.UploadInputArtifact, call.Live,
			encoded(t, &livepb.UploadInputArtifactResponse{CapabilityArtifactId: "i", SizeBytes: 7}), dialect.OK},
		{"live upload error", call.UploadInputArtifact, call.Live,
			encoded(t, &livepb.UploadInputArtifactResponse{Error: "e"}), dialect.ToolError},
		{"health", call.Healthcheck, call.Doc, encoded(t, &docpb.HealthResponse{Message: "m"}), dialect.OutcomeUnknown},
		{"other", call.Other, call.Auto, frame(0, str(2, "x")), dialect.OutcomeUnknown},
		{"legacy success", call.Invoke, call.Legacy, encoded(t, &legacypb.InvokeResponse{Result: "{}", Success: true}),
			dialect.OK},
		{"legacy success with an error", call.Invoke, call.Legacy,
			encoded(t, &legacypb.InvokeResponse{Success: true, Error: "e"}), dialect.OK},
		{"legacy failure", call.Invoke, call.Legacy, frame(0, str(3, "x")), dialect.ToolError},
		{"legacy failure without a text", call.Invoke, call.Legacy, frame(0, nil), dialect.ToolError},
		{"legacy failure with a result", call.Invoke, call.Legacy, frame(0, str(1, "{}")), dialect.ToolError},
		{"legacy, the last success counts", call.Invoke, call.Legacy, frame(0, wire(varint(2, 1), varint(2, 0))),
			dialect.ToolError},
		{"legacy, success of another type", call.Invoke, call.Legacy, frame(0, str(2, "1")), dialect.ToolError},
		{"legacy, success in a group", call.Invoke, call.Legacy,
			frame(0, wire(tag(9, protowire.StartGroupType), varint(2, 1), tag(9, protowire.EndGroupType))),
			dialect.ToolError},
		{"legacy, a long true", call.Invoke, call.Legacy, frame(0, []byte{0x10, 0x81, 0x80, 0x80, 0x00}), dialect.OK},
		{"legacy, compressed", call.Invoke, call.Legacy, frame(1, varint(2, 1)), dialect.OutcomeUnknown},
		{"legacy, cut off", call.Invoke, call.Legacy, frame(0, varint(2, 1))[:6], dialect.CutOff},
		{"legacy health", call.Healthcheck, call.Legacy, frame(0, varint(1, 1)), dialect.OutcomeUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var s dialect.Scanner
			for size := 1; size <= len(tt.body)+1; size = size*3/2 + 1 {
				s.Reset(tt.m, tt.d)
				for b := tt.body; len(b) > 0; {
					n := min(size, len(b))
					s.Body(b[:n])
					b = b[n:]
				}
				if got := s.Outcome(); got != tt.want {
					t.Fatalf("in pieces of %d: %v, want %v", size, got, tt.want)
				}
			}
		})
	}
}

func TestScannerDoesNotAllocate(t *testing.T) {
	body := encoded(t, &docpb.InvokeResponse{ResultJson: []byte("{}"), Error: "x"})
	var s dialect.Scanner
	if n := testing.AllocsPerRun(100, func() {
		s.Reset(call.Invoke, call.Doc)
		s.Body(body)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestZeroScanner(t *testing.T) {
	t.Parallel()
	var s dialect.Scanner
	s.Body([]byte("anything"))
	if got := s.Outcome().String(); got != "unknown" {
		t.Error(got)
	}
	if s.Reset(call.Healthcheck, call.Doc) {
		t.Error("Reset says a health check has an outcome")
	}
	if !s.Reset(call.Invoke, call.Live) {
		t.Error("Reset says an invocation has no outcome")
	}
}

func FuzzScanner(f *testing.F) {
	f.Add(uint8(0), uint16(3), encoded(f, &docpb.InvokeResponse{ResultJson: []byte("{}"), Error: "x"}))
	f.Add(uint8(1), uint16(1), wire(encoded(f, &docpb.InvokeChunk{Data: []byte("abc")}),
		encoded(f, &docpb.InvokeChunk{Done: true})))
	f.Add(uint8(2), uint16(7), frame(0, wire(groups(2), varint(4, 1))))
	f.Add(uint8(3), uint16(7), frame(1, nil))
	f.Add(uint8(4), uint16(1), encoded(f, &legacypb.InvokeResponse{Result: "{}", Success: true, Error: "x"}))
	f.Fuzz(func(t *testing.T, m uint8, size uint16, body []byte) {
		method, d := []call.Method{call.Invoke, call.StreamInvoke, call.DownloadOutputArtifact,
			call.UploadInputArtifact, call.Invoke}[m%5], call.Doc
		if m%5 == 4 {
			d = call.Legacy
		}
		var whole, pieces dialect.Scanner
		whole.Reset(method, d)
		whole.Body(body)
		pieces.Reset(method, d)
		for b := body; len(b) > 0; {
			n := min(int(size)+1, len(b))
			pieces.Body(b[:n])
			b = b[n:]
		}
		if whole.Outcome() != pieces.Outcome() {
			t.Fatalf("whole: %v; in pieces: %v", whole.Outcome(), pieces.Outcome())
		}
		if want, ok := decoded(method, d, body); ok && whole.Outcome() != want {
			t.Fatalf("got %v, want %v", whole.Outcome(), want)
		}
	})
}

// decoded returns the outcome by the book: every message unmarshalled. It is false where a
// message cannot be.
func decoded(m call.Method, dia call.Dialect, body []byte) (dialect.Outcome, bool) {
	var seen, failed, done bool
	for len(body) > 0 {
		if len(body) < 5 || body[0] != 0 || uint64(len(body)-5) < uint64(binary.BigEndian.Uint32(body[1:])) {
			return 0, false
		}
		n := 5 + int(binary.BigEndian.Uint32(body[1:]))
		msg := map[call.Method]proto.Message{call.Invoke: &docpb.InvokeResponse{},
			call.StreamInvoke: &docpb.InvokeChunk{}, call.DownloadOutputArtifact: &docpb.ArtifactChunk{},
			call.UploadInputArtifact: &docpb.UploadInputArtifactResponse{}}[m]
		if dia == call.Legacy {
			msg = &legacypb.InvokeResponse{}
		}
		if proto.Unmarshal(body[5:n], msg) != nil {
			return 0, false
		}
		seen = true
		if dia == call.Legacy {
			failed = failed || !msg.(*legacypb.InvokeResponse).GetSuccess()
			done, body = true, body[n:]
			continue
		}
		failed = failed || msg.(interface{ GetError() string }).GetError() != ""
		d, stream := msg.(interface{ GetDone() bool })
		done = !stream || d.GetDone()
		body = body[n:]
	}
	switch {
	case failed:
		return dialect.ToolError, true
	case !seen && (m == call.Invoke || m == call.UploadInputArtifact):
		return dialect.OutcomeUnknown, true
	case !done:
		return dialect.CutOff, true
	}
	return dialect.OK, true
}

func BenchmarkScanner(b *testing.B) {
	body := encoded(b, &docpb.InvokeResponse{ResultJson: make([]byte, 1024)})
	var s dialect.Scanner
	b.ReportAllocs()
	for b.Loop() {
		s.Reset(call.Invoke, call.Doc)
		s.Body(body)
		if s.Outcome() != dialect.OK {
			b.Fatal(s.Outcome())
		}
	}
}
