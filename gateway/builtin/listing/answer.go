package listing

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// toolOf returns the message of a tool.
func toolOf(t *UsableTool) (*capgatepb.Tool, error) {
	schema := new(structpb.Struct)
	if t.Schema != nil {
		if err := protojson.Unmarshal(t.Schema.JSON(), schema); err != nil {
			return nil, fmt.Errorf("input_schema of %s: %w", t.Name, err)
		}
	}
	return &capgatepb.Tool{
		Name: t.Name, Description: t.Description, InputSchema: schema, Policy: t.Verdict.String(),
		TerminalOnSuccess: t.TerminalOnSuccess,
	}, nil
}

// Tag sets the etag of an otherwise complete response (RFC 9110 §8.8.3).
func Tag(answer proto.Message, etag *string) error {
	text, err := (proto.MarshalOptions{Deterministic: true}).Marshal(answer)
	if err != nil {
		return fmt.Errorf("etag: %w", err)
	}
	sum := sha256.Sum256(text)
	*etag = `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
	return nil
}
