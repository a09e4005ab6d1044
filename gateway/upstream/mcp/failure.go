package mcp

import (
	"errors"
	"fmt"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/call"
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

// invalidArguments returns the error of a call with arguments that are invalid for all MCP servers.
func invalidArguments(text string) error {
	return status.Error(&call.Refusal{Kind: call.InvalidArgument, Reason: "ARGUMENTS_INVALID", Message: text},
		call.NotSent)
}
