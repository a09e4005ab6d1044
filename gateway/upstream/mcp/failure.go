package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/jsonpointer"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// unusable returns the error of an invalid response. The text of a library is not included.
func unusable(err error) error {
	var own violation
	if errors.As(err, &own) {
		return upstream.Unusable(call.Internal, string(own))
	}
	return upstream.Lost("the MCP server's response was cut off")
}

// violation describes how a server's response violates the protocol.
type violation string

// Error implements error.
func (v violation) Error() string { return string(v) }

func violates(format string, args ...any) error { return violation(fmt.Sprintf(format, args...)) }

// argumentsInvalid is the reason of a call with invalid arguments.
const argumentsInvalid = "ARGUMENTS_INVALID"

// invalidArguments returns the error of a call with arguments that are invalid for all MCP servers.
func invalidArguments(text string) error {
	return status.Error(&call.Refusal{Kind: call.InvalidArgument, Reason: argumentsInvalid, Message: text},
		call.NotSent)
}

// errorOf returns the status for a JSON-RPC error. Some servers repeat the code in the message.
func (ex *exchange) errorOf(failure *jsonrpc.Error) error {
	prefix := fmt.Sprintf("MCP error %d: ", failure.Code)
	text := prefix + untrusted.Clip(strings.TrimPrefix(failure.Message, prefix), maxError)
	if ex.method == getPrompt && failure.Code == jsonrpc.CodeInvalidParams {
		return status.Error(&call.Refusal{Kind: call.InvalidArgument, Reason: argumentsInvalid,
			Message: "the MCP server rejects the prompt with these arguments: " + text}, call.Sent)
	}
	return grpcstatus.Error(ex.codeOf(failure.Code), text)
}

// notStrings returns the error of a prompt whose arguments are not all strings. It names the first of the others.
func notStrings(arguments []byte) error {
	const text = "the arguments of a prompt must be strings"
	var all map[string]json.RawMessage
	if strictjson.Unmarshal(arguments, &all) != nil {
		return invalidArguments(text)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if isText(all[name]) || string(all[name]) == "null" { // null is an empty string
			continue
		}
		return status.Error(&call.Refusal{Kind: call.InvalidArgument, Reason: argumentsInvalid,
			Message: fmt.Sprintf("%s, and %q is not", text, untrusted.Clip(untrusted.Line(name), maxNamed)),
			Metadata: map[string]string{
				"pointer": "/" + jsonpointer.Escape(untrusted.Clip(name, maxNamed)),
			}}, call.NotSent)
	}
	return invalidArguments(text)
}

// maxNamed is the maximum length of the name of an argument in an error, in bytes.
const maxNamed = 100
