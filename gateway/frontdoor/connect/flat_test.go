package connect

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

func flatFor(t testing.TB, m proto.Message) *flat {
	f := flatsOf("selu.capability", "selu.capability.v1")[m.ProtoReflect().Descriptor().FullName()]
	if f == nil {
		t.Fatalf("%T is not flat", m)
	}
	return f
}

// decodedFlat converts JSON without protojson.
func decodedFlat(f *flat, text []byte) ([]byte, bool) {
	r := strictjson.Get()
	defer r.Release()
	if r.Read(text, strictjson.Options{Keep: true, Depth: 1, Values: flatValues}) != nil {
		return nil, false
	}
	return f.decode(nil, r.Root())
}

// TestFlatRequests: usual requests need no protojson, and become what it makes of them.
func TestFlatRequests(t *testing.T) {
	t.Parallel()
	f := flatFor(t, &docpb.InvokeRequest{})
	for text, usual := range map[string]bool{
		`{}`: true,
		`{"toolName":"t","argsJson":"e30=","sessionId":"s","capabilityId":"c","threadId":"x"}`: true,
		`{"thread_id":"x","tool_name":"t\n\u00e9\ud83d\ude00","args_json":""}`:                 true,
		`{"argsJson":"-_-_"}`:                     true,
		`{"argsJson":"+/+/"}`:                     true,
		`{"argsJson":"YQ"}`:                       true,
		`{"argsJson":"YWI="}`:                     true,
		`{"argsJson":"YQ==","configJson":"YWJj"}`: true,
		`{"argsJson":"YW\nI="}`:                   false,
		`{"argsJson":"\n"}`:                       false,
		`{"argsJson":"YW\n\n\n\nI="}`:             false,
		`{"argsJson":"Y"}`:                        false,
		`{"argsJson":"YQ="}`:                      false,
		`{"argsJson":"===="}`:                     false,
		`{"argsJson":"Y-+_"}`:                     false,
		`{"toolName":null}`:                       false,
		`{"toolName":1}`:                          false,
		`{"toolName":"a","tool_name":"a"}`:        false,
		`{"toolName":"a","more":{"a":[1]}}`:       false,
		`{"toolName":{}}`:                         false,
		`[]`:                                      false,
		`{"argsJson":"` + strings.Repeat("YWJj", 1000) + `"}`: true,
	} {
		got, ok := decodedFlat(f, []byte(text))
		if ok != usual {
			t.Errorf("%.100s: usual %v, %x", text, ok, got)
		}
		if !ok {
			continue
		}
		var m docpb.InvokeRequest
		check.Must(t, protojson.Unmarshal([]byte(text), &m))
		want, err := proto.Marshal(&m)
		check.Must(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%.100s: %x, want %x", text, got, want)
		}
	}
}

// TestFlatResponses: the JSON of responses is that of protojson; unusual ones are left to it.
func TestFlatResponses(t *testing.T) {
	t.Parallel()
	messages := []proto.Message{&docpb.InvokeResponse{}, &docpb.InvokeResponse{ResultJson: []byte(`{"a":"é"}`)},
		&docpb.InvokeResponse{Error: "\"a\\\n\x01\x7f<>&\u2028😀"},
		&docpb.InvokeChunk{Data: []byte("\xff\x00a"), Done: true},
		&docpb.InvokeChunk{Error: "e"}, &docpb.HealthResponse{Ready: true, Message: "m"}, &docpb.HealthRequest{},
		&docpb.InvokeResponse{ResultJson: bytes.Repeat([]byte("a"), 5000), Error: "e"}}
	for _, m := range messages {
		msg, err := proto.Marshal(m)
		check.Must(t, err)
		got, ok := flatFor(t, m).encode(nil, msg)
		want, err := protojson.Marshal(m)
		check.Must(t, err)
		if !ok || !equalJSON(t, got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for name, msg := range map[string]string{"unknown": "\x18\x01", "twice": "\x12\x01a\x12\x01b",
		"cut off":   "\x12\x02a",
		"not UTF-8": "\x12\x01\xff", "of another type": "\x10\x01", "no tag": "\x80"} {
		if text, ok := flatFor(t, &docpb.InvokeResponse{}).encode(nil, []byte(msg)); ok {
			t.Errorf("%s: %s", name, text)
		}
	}
	if text, ok := flatFor(t, &docpb.HealthResponse{}).encode(nil, []byte("\x08\x00")); !ok || string(text) != "{}" {
		t.Errorf("false is %s, %v", text, ok)
	}
}

func equalJSON(t *testing.T, a, b []byte) bool {
	var values [2]any
	check.Must(t, json.Unmarshal(a, &values[0]))
	check.Must(t, json.Unmarshal(b, &values[1]))
	first, _ := json.Marshal(values[0])
	second, _ := json.Marshal(values[1])
	return bytes.Equal(first, second)
}

// FuzzFlat compares the conversion of texts and messages with that of protojson.
func FuzzFlat(f *testing.F) {
	f.Add([]byte(`{"toolName":"t","argsJson":"YQ=="}`))
	f.Add([]byte("\x0a\x02{}\x12\x01e"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if got, ok := decodedFlat(flatFor(t, &docpb.InvokeRequest{}), in); ok {
			var m docpb.InvokeRequest
			check.Must(t, protojson.Unmarshal(in, &m))
			if want, err := proto.Marshal(&m); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%q: %x, want %x, %v", in, got, want, err)
			}
		}
		if got, ok := flatFor(t, &docpb.InvokeResponse{}).encode(nil, in); ok {
			var m docpb.InvokeResponse
			check.Must(t, proto.Unmarshal(in, &m))
			if want, err := protojson.Marshal(&m); err != nil || !equalJSON(t, got, want) {
				t.Errorf("%x: %s, want %s, %v", in, got, want, err)
			}
		}
	})
}

// BenchmarkFlat converts a call of a tool and its response, and the same by protojson.
func BenchmarkFlat(b *testing.B) {
	in := []byte(`{"toolName":"t","argsJson":"` + strings.Repeat("YWJj", 340) + `","capabilityId":"weather"}`)
	out, err := proto.Marshal(&docpb.InvokeResponse{ResultJson: bytes.Repeat([]byte("a"), 1024)})
	check.Must(b, err)
	request, response := flatFor(b, &docpb.InvokeRequest{}), flatFor(b, &docpb.InvokeResponse{})
	b.Run("flat", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := decodedFlat(request, in); !ok {
				b.Fatal("an unusual request")
			}
			_, _ = response.encode(nil, out)
		}
	})
	b.Run("protojson", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var m docpb.InvokeRequest
			check.Must(b, strictjson.Check(in))
			check.Must(b, protojson.Unmarshal(in, &m))
			_, _ = proto.Marshal(&m)
			var r docpb.InvokeResponse
			check.Must(b, proto.Unmarshal(out, &r))
			_, _ = protojson.Marshal(&r)
		}
	})
}
