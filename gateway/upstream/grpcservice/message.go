package grpcservice

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

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
	"github.com/capgate/capgate/internal/toolschema"
)

// maxDepth is the maximum nesting of messages. A JSON value of structpb needs three for each of its levels.
const maxDepth = 3 * strictjson.MaxDepth

// types resolves the types of messages in Any.
type types struct {
	*dynamicpb.Types
	schemas *anySchemas // of messages in Any in arguments
	// lenient treats unknown types as messages without fields, so that they do not cause the loss of a result.
	lenient bool
}

func newTypes(files *protoregistry.Files) *types {
	return &types{Types: dynamicpb.NewTypes(files),
		schemas: &anySchemas{compiled: map[protoreflect.FullName]*toolschema.Schema{}}}
}

// FindMessageByURL implements protoregistry.MessageTypeResolver.
func (t *types) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	found, err := t.Types.FindMessageByURL(url)
	if err != nil && t.lenient {
		return (&emptypb.Empty{}).ProtoReflect().Type(), nil
	}
	return found, err
}

var errNoMessage = errors.New("the backend's message does not have the method's type")

// result returns a message of the backend as JSON. Nothing is decoded before its size is known.
func (t *tool) result(ctx context.Context, data []byte, most int) (text []byte, err error) {
	of, lenient := t.method.Output(), &types{Types: t.types.Types, lenient: true}
	if err := newMeasure(ctx, lenient, most).message(data, of, 0); err != nil {
		if ctx.Err() != nil {
			return nil, upstream.Ended(ctx.Err())
		}
		return nil, upstream.Unusable(kindOf(err), err.Error())
	}
	err = recovery.Do("result", func() error {
		msg := dynamicpb.NewMessage(of)
		decode := proto.UnmarshalOptions{Resolver: lenient, RecursionLimit: maxDepth, AllowPartial: true}
		if err := decode.Unmarshal(data, msg); err != nil {
			return errNoMessage
		}
		text, err = protojson.MarshalOptions{EmitDefaultValues: true, AllowPartial: true,
			Resolver: lenient}.Marshal(msg)
		return err
	})
	if errors.Is(err, errNoMessage) {
		return nil, upstream.Unusable(call.Internal, errNoMessage.Error())
	}
	var compact bytes.Buffer
	if err == nil { // protojson varies its whitespace
		err = json.Compact(&compact, text)
	}
	if err == nil {
		err = strictjson.Check(compact.Bytes())
	}
	var deep *strictjson.Error
	if errors.As(err, &deep) {
		return nil, status.Errorf(codes.Internal, "the call was made, but its result, a %s, %v as JSON", of.FullName(),
			deep)
	}
	if err != nil {
		return nil, upstream.Unusable(call.Internal, fmt.Sprintf("the backend's %s has no JSON form", of.FullName()))
	}
	return compact.Bytes(), nil
}

// errTooMuch returns the error of a message, or of messages together, above the size limit.
func errTooMuch(most int) error {
	return upstream.Unusable(call.ResourceExhausted,
		fmt.Sprintf("the backend's response is larger than %d bytes as JSON", most))
}

func kindOf(err error) call.Kind {
	if errors.Is(err, errLarge) || errors.Is(err, errNested) {
		return call.ResourceExhausted
	}
	return call.Internal
}
