package grpcservice_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/grpctest"
)

// newReflected returns reflection with a file b.proto, with the service b.S, whose message is b.M.
func newReflected(t *testing.T, edit func(*descriptorpb.FileDescriptorProto)) *grpctest.Reflected {
	t.Helper()
	file := fileOf(func(f *descriptorpb.FileDescriptorProto) {
		f.Name, f.Package = proto.String("b.proto"), proto.String("b")
		f.Service[0].Method[0].InputType, f.Service[0].Method[0].OutputType = proto.String(".b.M"), proto.String(".b.M")
		edit(f)
	})
	r := grpctest.NewReflected(t)
	r.Symbols["b.S"], r.Files["b.proto"] = "b.proto", bytesOf(t, file)
	return r
}

// TestABrokenFileHidesWhatDependsOnIt: the other services are served, and log and discovery name the file and the
// cause.
func TestABrokenFileHidesWhatDependsOnIt(t *testing.T) {
	t.Parallel()
	type file = descriptorpb.FileDescriptorProto
	importing := func(names ...string) func(*file) {
		return func(f *file) {
			f.Dependency = names
			f.MessageType[0].Field = []*descriptorpb.FieldDescriptorProto{fieldOf("c", 1,
				descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".c.M")}
		}
	}
	edition := descriptorpb.Edition(1234)
	for name, c := range map[string]struct {
		edit func(*file)
		more func(*grpctest.Reflected)
		want []string // in the log, and in the discovery; none: b.S is served as well
	}{
		"sound": {edit: func(*file) {}},
		"bytes": {func(*file) {}, func(r *grpctest.Reflected) {
			r.Files["b.proto"] = append(r.Files["b.proto"], 0x22, 0xff)
		},
			[]string{"b.proto", "a file that is none"}},
		"bytes without a name": {func(*file) {}, func(r *grpctest.Reflected) { r.Files["b.proto"] = []byte{0xff} },
			[]string{"b.S/* could not be read", "without a name"}},
		"a missing import": {importing("c.proto"), nil, []string{"b.proto", `"c.proto"`, "is missing"}},
		"a missing import of an import": {importing("d.proto", "c.proto"), func(r *grpctest.Reflected) {
			r.Files["d.proto"] = bytesOf(t, &file{Name: proto.String("d.proto"), Dependency: []string{"none.proto"}})
			r.Files["c.proto"] = bytesOf(t, fileOf(func(f *file) {
				f.Name, f.Package, f.Service = proto.String("c.proto"), proto.String("c"), nil
			}))
		}, []string{"b.proto", `"none.proto"`, "is missing"}},
		"an import that is refused": {importing("c.proto"), func(r *grpctest.Reflected) {
			r.Refuse["c.proto"] = codes.Internal
		},
			[]string{"b.proto", "cannot build c.proto"}},
		"a missing weak import": {edit: func(f *file) {
			f.Dependency, f.WeakDependency = []string{"c.proto"}, []int32{0}
		}},
		"a cycle": {importing("c.proto"), func(r *grpctest.Reflected) {
			r.Files["c.proto"] = bytesOf(t, fileOf(func(f *file) {
				f.Name, f.Package, f.Service = proto.String("c.proto"), proto.String("c"), nil
				f.Dependency = []string{"b.proto"}
			}))
		}, []string{"b.proto", "imports itself"}},
		"a type that is not there": {func(f *file) { f.Service[0].Method[0].InputType = proto.String(".b.N") }, nil,
			[]string{"b.proto", "inconsistent descriptors", "b.N"}},
		"a symbol twice": {func(f *file) { f.MessageType = append(f.MessageType, f.MessageType[0]) }, nil,
			[]string{"b.proto", "inconsistent descriptors"}},
		"a symbol of another file": {edit: func(f *file) {
			f.MessageType = append(f.MessageType, &descriptorpb.DescriptorProto{Name: proto.String("CountRequest")})
			f.Package, f.Service[0].Method[0].InputType = proto.String("demo.v1"), proto.String(".demo.v1.CountRequest")
			f.Service[0].Method[0].OutputType, f.Service[0].Name = proto.String(".demo.v1.M"), proto.String("S")
		}, more: func(r *grpctest.Reflected) { r.Symbols["demo.v1.S"] = "b.proto" }},
		"a syntax": {func(f *file) { f.Syntax = proto.String("proto9") }, nil, []string{"b.proto", "proto9"}},
		"an edition": {func(f *file) { f.Syntax, f.Edition = proto.String("editions"), &edition }, nil,
			[]string{"b.proto", "edition"}},
		"an extension": {func(f *file) {
			e := fieldOf("e", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING, "")
			e.Extendee = proto.String(".b.Gone")
			f.Extension = append(f.Extension, e)
		}, nil, []string{"b.proto", "b.Gone"}},
		"a type of protobuf": {func(f *file) {
			f.Package, f.MessageType[0].Name = proto.String("google.protobuf"), proto.String("Timestamp")
			f.Service[0].Method = nil
		}, nil, []string{"b.proto", "not a file of protobuf"}},
		"the name of protobuf": {func(f *file) {
			f.Package, f.MessageType[0].Name, f.Service = nil, proto.String("google"), nil
		}, nil, []string{"b.S"}},
		"a field twice": {func(f *file) {
			one := fieldOf("a", 1, descriptorpb.FieldDescriptorProto_TYPE_BOOL, "")
			f.MessageType[0].Field = []*descriptorpb.FieldDescriptorProto{one, one}
		}, nil, []string{"b.proto", "inconsistent descriptors"}},
		"too many bytes": {func(f *file) { f.MessageType[0].Name = proto.String(strings.Repeat("M", 9<<20)) }, nil,
			[]string{"b.S/* could not be read", "larger than max"}},
		"too much": {func(f *file) {
			f.MessageType[0].Name = proto.String(strings.Repeat("M", 38<<10))
			for i := range int32(3_000) {
				f.MessageType[0].Field = append(f.MessageType[0].Field, fieldOf(fmt.Sprintf("f%d", i), i+1,
					descriptorpb.FieldDescriptorProto_TYPE_BOOL, ""))
			}
		}, nil, []string{"b.proto", "is too large"}},
		"an end of the stream": {func(*file) {}, func(r *grpctest.Reflected) {
			r.End["b.S"] = status.Error(codes.Unknown, "no such dice")
		}, []string{"b.S/* could not be read", "no such dice"}},
		"an error": {func(*file) {}, func(r *grpctest.Reflected) { r.Refuse["b.S"] = codes.Unimplemented },
			[]string{"b.S/* could not be read", "cannot build b.proto"}},
		"ten thousand services": {edit: func(f *file) {
			for i := range 10_000 {
				f.Service = append(f.Service, &descriptorpb.ServiceDescriptorProto{
					Name: proto.String(fmt.Sprintf("S%d", i)), Method: f.Service[0].Method})
			}
		}},
		"too many methods": {func(f *file) {
			for i := range 1_001 {
				f.Service[0].Method = append(f.Service[0].Method, &descriptorpb.MethodDescriptorProto{
					Name: proto.String(fmt.Sprintf("Get%d", i)), InputType: proto.String(".b.M"),
					OutputType: proto.String(".b.M")})
			}
		}, nil, []string{"b.S/*", "too many"}},
	} {
		for _, last := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", name, last), func(t *testing.T) {
				t.Parallel()
				r := newReflected(t, c.edit)
				if c.more != nil {
					c.more(r)
				}
				methods := []string{"b.S/*", demo}
				if r.Symbols["demo.v1.S"] != "" {
					methods[0] = "demo.v1.S/*"
				}
				if last {
					slices.Reverse(methods)
				}
				s := grpctest.Start(t, grpctest.Options{Reflect: r.Answer})
				checkServed(t, start(t, func(f *upstream.Fleet, _ *gatewaytest.Fleet) {
					settings(f).Methods = methods
				}, s.Addr),
					c.want)
			})
		}
	}
}

// checkServed checks that demo.v1.Demo is served, and b.S where nothing is wrong.
func checkServed(t *testing.T, w *serviceGateway, want []string) {
	t.Helper()
	got, err := w.Invoke(within(t), request(upstream.DiscoveryTool, ""))
	if err != nil {
		t.Fatal(err)
	}
	leftOut := string(localgrpc.Rest(got.ProtoReflect().GetUnknown()))
	names := []string{"Count", "Echo", "Fail", "Raw", "Wait"}
	if want == nil {
		names = []string{"Count", "Echo", "Fail", "Get", "Raw", "Wait"}
	}
	if listed := slices.Sorted(maps.Keys(w.listed(t))); !slices.Equal(listed, names) {
		t.Errorf("%s; left out %s", listed, leftOut)
	}
	if code, text := w.post(t, "Echo", `{"cityName":"Ulm"}`); code != 200 || !strings.Contains(text, "Ulm") {
		t.Errorf("%d %s", code, text)
	}
	if want == nil && leftOut != "" {
		t.Errorf("left out: %s", leftOut)
	}
	logged := strings.ReplaceAll(w.log.String(), `\"`, `"`)
	for _, part := range want {
		if !strings.Contains(leftOut, part) || !strings.Contains(logged, part) {
			t.Errorf("%s is not in what was left out, or not in the log: %s\n%.2000s", part, leftOut, logged)
		}
	}
}

// TestAnEndOfAllStreams: a backend that answers nothing has its own error, after a bounded number of streams.
func TestAnEndOfAllStreams(t *testing.T) {
	t.Parallel()
	streams := 0
	s := grpctest.Start(t, grpctest.Options{
		Reflect: func(reflectionpb.ServerReflection_ServerReflectionInfoServer) error {
			streams++
			return status.Error(codes.PermissionDenied, "not for you")
		}})
	w := start(t, func(f *upstream.Fleet, of *gatewaytest.Fleet) {
		of.Unprobed = true
		for i := range 100 {
			settings(f).Methods = append(settings(f).Methods, fmt.Sprintf("a.S%d/*", i))
		}
	}, s.Addr)
	_, err := w.Invoke(within(t), request(upstream.DiscoveryTool, ""))
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "not for you") || streams > 10 {
		t.Errorf("%v after %d streams", err, streams)
	}
}

// TestProbesOutliveABrokenFile: a backend is ready whose reflection cannot read one of the methods.
func TestProbesOutliveABrokenFile(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]func(*grpctest.Reflected){
		"bytes":                nil,
		"a missing file":       func(r *grpctest.Reflected) { delete(r.Files, "b.proto") },
		"an error":             func(r *grpctest.Reflected) { r.Refuse["b.S"] = codes.Internal },
		"an end of the stream": func(r *grpctest.Reflected) { r.End["b.S"] = status.Error(codes.Internal, "no") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReflected(t, func(*descriptorpb.FileDescriptorProto) {})
			r.Files["b.proto"] = append(r.Files["b.proto"], 0x22, 0xff)
			if wrong != nil {
				wrong(r)
			}
			s := grpctest.Start(t, grpctest.Options{Reflect: r.Answer})
			w := start(t, func(f *upstream.Fleet, of *gatewaytest.Fleet) {
				settings(f).Methods = []string{"b.S/Get", "demo.v1.Demo/Echo"}
				of.Protocol = f.Protocol
			}, s.Addr)
			if result, err := w.services.Probe(id).Probe(within(t), connect(t, s.Addr)); err != nil || !result.OK {
				t.Errorf("%+v, %v", result, err)
			}
			w.result(t, "Echo", `{"cityName":"Ulm"}`)
		})
	}
}
