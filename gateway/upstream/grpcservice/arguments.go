package grpcservice

import (
	"bytes"
	"context"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/capgate/capgate/gateway/filter"
	gatewaystatus "github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/toolschema"
)

var _ upstream.ArgumentChecker = (*Services)(nil)

// Arguments implements upstream.ArgumentChecker. The definitions are those of the first backend that has any.
func (s *Services) Arguments(ctx context.Context, capability string) upstream.CheckArguments {
	f := s.Fleet(capability)
	if f == nil {
		return nil
	}
	definitions := definitionsOf(f)
	for _, load := range []bool{false, true} {
		for _, addr := range f.Backends {
			if definitions == nil {
				definitions = s.definitionsAt(ctx, capability, addr, load)
			}
		}
	}
	if definitions == nil {
		return nil
	}
	return func(ctx context.Context, tool string, arguments []byte) error {
		t := definitions.tools[tool]
		if t == nil {
			return nil
		}
		_, err := t.message(ctx, arguments)
		return err
	}
}

// definitionsAt returns the definitions of a backend; nil means unknown. If load is true, they are requested from the
// backend first.
func (s *Services) definitionsAt(ctx context.Context, capability, addr string, load bool) *Definitions {
	b, release, err := s.Lookup(capability, addr)
	if err != nil {
		return nil
	}
	defer release()
	if load {
		definitions, _ := b.known(ctx, false)
		return definitions
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.definitions
}

// rejected returns the status of a call with invalid arguments.
func (b *backend) rejected(ctx context.Context, tool string, err error) error {
	if ctx.Err() != nil {
		return upstream.Ended(ctx.Err())
	}
	of := &call.Call{Capability: b.fleet.Capability, Tool: tool}
	return gatewaystatus.Of(filter.InvalidArguments(of, err), call.NotSent).Err()
}

// message returns the encoded message of a call's arguments, which must match the schemas of the tool and of messages
// in Any. The error is one of toolschema.Schema.Check, and quotes no value.
func (t *tool) message(ctx context.Context, arguments []byte) ([]byte, error) {
	if len(bytes.TrimSpace(arguments)) == 0 {
		arguments = []byte("{}")
	}
	if err := t.schema.Check(ctx, arguments); err != nil {
		return nil, err
	}
	m := dynamicpb.NewMessage(t.method.Input())
	err := recovery.Do("arguments", func() error {
		return protojson.UnmarshalOptions{Resolver: t.types, RecursionLimit: maxDepth}.Unmarshal(arguments, m)
	})
	if err != nil {
		return nil, &toolschema.Violation{Pointer: pointerOf(arguments, err), Reason: rule(err)}
	}
	if err := t.types.checkAny(ctx, arguments, t.method.Input()); err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// rule returns the violated rule of protobuf's JSON form, without values of the arguments.
func rule(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	for _, known := range []struct{ text, rule string }{
		{"is already set", "at most one field of a oneof may be set"},
		{"google.protobuf.Timestamp", "a timestamp must be like 2026-01-31T12:00:00Z"},
		{"google.protobuf.Duration", "a duration must be like 1.5s"},
		{"google.protobuf.FieldMask", "a field mask must list paths of fields in lowerCamelCase"},
		{"unable to resolve", "the type of an Any is unknown"},
		{"google.protobuf.Any", "an Any must have @type, and the fields of that type or value"},
		{"bytes field", "bytes must be base64"},
		{"unknown field", "a message in an Any has an unknown field"},
		{"required field", "a required field is not set"},
	} {
		if strings.Contains(text, known.text) {
			return known.rule
		}
	}
	return "a value does not fit its field"
}
