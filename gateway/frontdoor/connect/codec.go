package connect

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictjson"
)

// message is an encoded message: protobuf, or JSON on its way from or to the client.
type message struct{ data []byte }

// codec is a codec for connect-go with this name. Messages are forwarded unchanged; statuses are protobuf.
type codec string

// Name implements connect.Codec.
func (c codec) Name() string { return string(c) }

// Marshal implements connect.Codec. The caller owns the returned bytes of a message.
func (c codec) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case *message:
		return v.data, nil
	case proto.Message:
		return proto.Marshal(v)
	}
	return nil, fmt.Errorf("no message: %T", v)
}

// Unmarshal implements connect.Codec.
func (c codec) Unmarshal(data []byte, v any) error {
	m, ok := v.(*message)
	if !ok {
		return fmt.Errorf("no message: %T", v)
	}
	m.data = slices.Clone(data) // the buffer is reused
	return nil
}

// wire is a codec for grpc-go. It has no name, so the content type is application/grpc.
type wire struct{}

// Name implements encoding.CodecV2.
func (wire) Name() string { return "" }

// Marshal implements encoding.CodecV2.
func (wire) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*message)
	if !ok {
		return nil, fmt.Errorf("no message: %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(m.data)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (wire) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*message)
	if !ok {
		return fmt.Errorf("no message: %T", v)
	}
	m.data = data.Materialize()
	return nil
}

// decode converts a client's message to protobuf.
func (t *target) decode(m *message) error {
	if !t.json {
		return nil
	}
	if t.schema == nil {
		return refused("JSON_UNSUPPORTED", call.Unimplemented,
			"the gateway has no schema of this method, so it only accepts protobuf messages")
	}
	in, err := empty(t.schema.Input())
	if err != nil {
		return err
	}
	if err := strictjson.Check(m.data); err != nil {
		return refused("REQUEST_MALFORMED", call.InvalidArgument, "the message %v", err)
	}
	// a client may be newer
	options := protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: strictjson.MaxDepth}
	if err := options.Unmarshal(m.data, in); err != nil {
		return refused("REQUEST_MALFORMED", call.InvalidArgument,
			"the message is not a %s in JSON%s", t.schema.Input().FullName(), placeOf(err))
	}
	if m.data, err = proto.Marshal(in); err != nil {
		return refused("REQUEST_MALFORMED", call.InvalidArgument, "the message is not a %s in JSON",
			t.schema.Input().FullName())
	}
	return nil
}

// jsonCopies is the number of copies of a message while it is converted to JSON, besides the message itself.
const jsonCopies = 3

// encode converts protobuf to the client's encoding.
func (t *target) encode(ctx context.Context, m *message) error {
	if !t.json {
		return nil
	}
	if err := request.HoldResult(ctx, jsonCopies*len(m.data)); err != nil {
		return errorOf(err)
	}
	out, err := empty(t.schema.Output()) // it exists, or decode would have failed
	if err != nil {
		return err
	}
	if err = proto.Unmarshal(m.data, out); err == nil {
		m.data, err = protojson.Marshal(out)
	}
	if err != nil {
		return refused("ANSWER_MALFORMED", call.Internal, "the response is not a %s that can be encoded as JSON",
			t.schema.Output().FullName())
	}
	return nil
}

func empty(d protoreflect.MessageDescriptor) (proto.Message, error) {
	typ, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		return nil, refused("JSON_UNSUPPORTED", call.Unimplemented, "the gateway has no type for messages of %s",
			d.FullName())
	}
	return typ.New().Interface(), nil
}

// placeOf returns the position in a protojson error, without the content, which may be secret.
func placeOf(err error) string {
	if place := regexp.MustCompile(`\(line \d+:\d+\)`).FindString(err.Error()); place != "" {
		return " " + place
	}
	return ""
}
