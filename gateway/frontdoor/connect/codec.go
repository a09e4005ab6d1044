package connect

import (
	"context"
	"errors"
	"regexp"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictjson"
)

// decode converts a client's message to protobuf, and appends it.
func (t *target) decode(to, msg []byte) ([]byte, error) {
	if !t.json {
		return append(to, msg...), nil
	}
	if err := t.checkSchema(); err != nil {
		return nil, err
	}
	if encoded, ok := t.decodeFlat(to, msg); ok {
		return encoded, nil
	}
	in, err := empty(t.schema.Input())
	if err != nil {
		return nil, err
	}
	done, err := t.body.held.DecodeJSON(msg)
	if err != nil {
		return nil, undecoded(err)
	}
	defer done()
	// a client may be newer
	options := protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: strictjson.MaxDepth}
	if err := options.Unmarshal(msg, in); err != nil {
		return nil, refused("REQUEST_MALFORMED", call.InvalidArgument,
			"the message is not a %s in JSON%s", t.schema.Input().FullName(), placeOf(err))
	}
	encoded, err := proto.MarshalOptions{}.MarshalAppend(to, in)
	if err != nil {
		return nil, refused("REQUEST_MALFORMED", call.InvalidArgument, "the message is not a %s in JSON",
			t.schema.Input().FullName())
	}
	return encoded, nil
}

// decodeFlat appends a message with a flat schema. ok is false if protojson has to read it.
func (t *target) decodeFlat(to, msg []byte) (encoded []byte, ok bool) {
	if t.in == nil {
		return nil, false
	}
	r := strictjson.Get()
	defer r.Release()
	if r.Read(msg, strictjson.Options{Keep: true, Depth: 1, Values: flatValues}) != nil {
		return nil, false
	}
	begin := len(to)
	to = slices.Grow(to, len(msg))
	if encoded, ok = t.in.decode(to, r.Root()); !ok {
		clear(to[begin:cap(to)]) // the message that protojson reads may be shorter
	}
	return encoded, ok
}

// undecoded returns the error of a message that is no strict JSON, or that takes too much memory.
func undecoded(err error) error {
	var wrong *strictjson.Error
	switch {
	case !errors.As(err, &wrong):
		return failureOf(err, call.NotSent)
	case wrong.TooMany:
		return refused("MESSAGE_TOO_LARGE", call.ResourceExhausted, "the message %v", err)
	}
	return refused("REQUEST_MALFORMED", call.InvalidArgument, "the message %v", err)
}

// jsonCopies is the number of copies of a message while it is converted to JSON, besides the message itself.
const jsonCopies = 3

// encode converts protobuf to the client's encoding. JSON may use the memory of to. The longest message is charged: the
// previous message was written before the next one is converted.
func (t *target) encode(ctx context.Context, to, msg []byte) ([]byte, error) {
	if !t.json {
		return msg, nil
	}
	if err := t.results.Hold(ctx, jsonCopies*len(msg)); err != nil {
		return nil, err
	}
	if text, ok := t.out.encode(to[:0], msg); ok {
		return text, nil
	}
	out, err := empty(t.schema.Output())
	if err != nil {
		return nil, err
	}
	var text []byte
	if err = proto.Unmarshal(msg, out); err == nil {
		text, err = protojson.Marshal(out)
	}
	if err != nil {
		return nil, refused("ANSWER_MALFORMED", call.Internal, "the response is not a %s that can be encoded as JSON",
			t.schema.Output().FullName())
	}
	return text, nil
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
