package filter

import (
	"errors"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/toolschema"
)

// NamedArtifacts returns all artifacts that a call names: in its arguments, its configuration and its context.
func NamedArtifacts(m *Peeked, c *call.Call) ([]string, *call.Refusal) {
	ids, err := dialect.NamedAll(m.Args)
	if err != nil {
		return nil, Ambiguous(c, TheArguments, "ARGUMENTS_INVALID", err)
	}
	for _, find := range []func() ([]string, error){
		func() ([]string, error) { return dialect.NamedAll(m.Config) },
		func() ([]string, error) { return dialect.NamedInContext(m.Entries()) },
	} {
		more, err := find()
		if err != nil {
			return nil, Ambiguous(c, "config_json", "CONFIG_INVALID", err)
		}
		ids = append(ids, more...)
	}
	return ids, nil
}

// TheArguments begins messages about invalid arguments.
const TheArguments = "the arguments"

// Ambiguous returns the rejection of a call with JSON that two decoders could read differently. invalid is the reason
// for JSON that no decoder accepts.
func Ambiguous(c *call.Call, what, invalid string, err error) *call.Refusal {
	r := &call.Refusal{
		Kind: call.InvalidArgument, Reason: invalid, Message: what + ": " + err.Error(),
		Metadata: map[string]string{"capability": c.Capability, "tool": c.Tool},
	}
	var text *strictjson.Error
	var name *toolschema.AmbiguousNameError
	if errors.As(err, &text) && what == TheArguments {
		r.Message = "the JSON of the arguments " + text.Error()
	}
	switch {
	case errors.Is(err, dialect.ErrNamed):
		return TooManyArtifacts
	case errors.As(err, &text) && text.Ambiguous, errors.As(err, &name):
		r.Reason = "AMBIGUOUS_ARGUMENTS"
	case errors.As(err, &text) && text.TooMany, errors.Is(err, toolschema.ErrCostly):
		r.Reason = "ARGUMENTS_TOO_COSTLY"
	}
	return r
}

// InvalidArguments returns the rejection of a call whose arguments do not match the schema of its tool. The metadata
// pointer names the first invalid value.
func InvalidArguments(c *call.Call, err error) *call.Refusal {
	r := Ambiguous(c, TheArguments, "ARGUMENTS_INVALID", err)
	var at *toolschema.Violation
	if errors.As(err, &at) {
		r.Metadata["pointer"] = at.Pointer
	}
	return r
}

// TooManyArtifacts rejects a call that names too many artifacts.
var TooManyArtifacts = &call.Refusal{Kind: call.InvalidArgument, Reason: "ARTIFACTS_INVALID",
	Message: "the arguments name more than 64 artifacts, or one by an id that is longer than 512 bytes"}
