package invocation

import (
	"bytes"
	"errors"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictjson"
)

// InvalidBody is the reason of an invalid body.
const InvalidBody = "INVALID_BODY"

// Arguments returns the arguments of a tool, a JSON object, from a text; {} if the text is blank. The error is a
// *call.Refusal, with subject as the name of the text, and invalid as the reason of a text that is not a JSON object.
func Arguments(text []byte, subject, invalid string) ([]byte, error) {
	return argumentsOf("tool", text, subject, invalid)
}

// PromptArguments is Arguments for a prompt.
func PromptArguments(text []byte, subject, invalid string) ([]byte, error) {
	return argumentsOf("prompt", text, subject, invalid)
}

func argumentsOf(kind string, text []byte, subject, invalid string) ([]byte, error) {
	text = bytes.Trim(text, blanks)
	if len(text) == 0 {
		return EmptyObject, nil
	}
	if err := strictjson.Check(text); err != nil {
		return nil, refuse(err, subject, invalid, 0)
	}
	if text[0] != '{' {
		return nil, &call.Refusal{Kind: call.InvalidArgument, Reason: invalid,
			Message: subject + " must be a JSON object, the arguments of the " + kind}
	}
	return text, nil
}

const blanks = " \t\r\n"

// refuse returns the refusal of a text that strictjson rejects. Arguments or a configuration start at depth: ambiguous
// JSON below it has the same reason as in a gRPC call.
func refuse(err error, subject, invalid string, depth int) error {
	r := &call.Refusal{Kind: call.InvalidArgument, Reason: invalid, Message: subject + " " + err.Error()}
	var e *strictjson.Error
	if errors.As(err, &e) && e.Ambiguous && e.Depth >= depth {
		r.Reason = "AMBIGUOUS_ARGUMENTS"
	}
	return r
}
