package grpcservice

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/strictjson"
)

// maxDepth is the deepest nesting of messages. A JSON value of structpb has three for each of its levels.
const maxDepth = 3 * strictjson.MaxDepth

// types finds the types of messages in Any.
type types struct {
	*dynamicpb.Types
	// lenient has a type that is not known be one without fields: a result that was paid for is not lost by it.
	lenient bool
}

func newTypes(files *protoregistry.Files) *types { return &types{Types: dynamicpb.NewTypes(files)} }

// FindMessageByURL implements protoregistry.MessageTypeResolver.
func (t *types) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	found, err := t.Types.FindMessageByURL(url)
	if err != nil && t.lenient {
		return (&emptypb.Empty{}).ProtoReflect().Type(), nil
	}
	return found, err
}

// message returns the message of a call's arguments. They must be as the schema says. The error quotes no value.
func (t *tool) message(ctx context.Context, arguments []byte) ([]byte, error) {
	if len(bytes.TrimSpace(arguments)) == 0 {
		arguments = []byte("{}")
	}
	if err := t.schema.Check(ctx, arguments); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "args_json %v", err)
	}
	m := dynamicpb.NewMessage(t.method.Input())
	err := recovery.Do("arguments", func() error {
		return protojson.UnmarshalOptions{Resolver: t.types, RecursionLimit: maxDepth}.Unmarshal(arguments, m)
	})
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "args_json is not a %s: %s", t.method.Input().FullName(), rule(err))
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// rule returns the rule of protobuf's JSON that arguments break, without any value of theirs.
func rule(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	for _, known := range []struct{ text, rule string }{
		{"is already set", "at most one field of a oneof may be set"},
		{"google.protobuf.Timestamp", "a timestamp is as in 2026-01-31T12:00:00Z"},
		{"google.protobuf.Duration", "a duration is as in 1.5s"},
		{"google.protobuf.FieldMask", "a field mask has paths of fields in lowerCamelCase"},
		{"unable to resolve", "the type of an Any is not known"},
		{"google.protobuf.Any", "an Any has @type and the fields of that type, or value"},
		{"bytes field", "bytes are base64"},
		{"unknown field", "a message in an Any has an unknown field"},
		{"required field", "a required field is not set"},
	} {
		if strings.Contains(text, known.text) {
			return known.rule
		}
	}
	return "a value does not fit its field"
}

var errNoMessage = errors.New("the backend's message is not one of the method's type")

// result returns a message of the backend as JSON. Nothing is decoded before its size is known.
func (t *tool) result(ctx context.Context, data []byte, most int) (text []byte, err error) {
	of, lenient := t.method.Output(), &types{t.types.Types, true}
	if err := newMeasure(ctx, lenient, most).message(data, of, 0); err != nil {
		if ctx.Err() != nil {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		return nil, upstream.Unusable(kindOf(err), err.Error())
	}
	err = recovery.Do("result", func() error {
		msg := dynamicpb.NewMessage(of)
		decode := proto.UnmarshalOptions{Resolver: lenient, RecursionLimit: maxDepth, AllowPartial: true}
		if err := decode.Unmarshal(data, msg); err != nil {
			return errNoMessage
		}
		text, err = protojson.MarshalOptions{EmitDefaultValues: true, AllowPartial: true, Resolver: lenient}.Marshal(msg)
		return err
	})
	if errors.Is(err, errNoMessage) {
		return nil, upstream.Unusable(call.Internal, errNoMessage.Error())
	}
	var compact bytes.Buffer
	if err == nil { // protojson varies its blanks
		err = json.Compact(&compact, text)
	}
	if err == nil {
		err = strictjson.Check(compact.Bytes())
	}
	if err != nil {
		return nil, upstream.Unusable(call.Internal, fmt.Sprintf("the backend's %s has no JSON form", of.FullName()))
	}
	return compact.Bytes(), nil
}

// errTooMuch is the error of a message, or of messages together, that are larger than they may be.
func errTooMuch(most int) error {
	return upstream.Unusable(call.ResourceExhausted, fmt.Sprintf("the backend's response is larger than %d bytes as JSON; "+
		"grpc_service.max_message bounds it", most))
}

func kindOf(err error) call.Kind {
	if errors.Is(err, errLarge) || errors.Is(err, errNested) {
		return call.ResourceExhausted
	}
	return call.Internal
}
