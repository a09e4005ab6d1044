package mcp

import (
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// lacking returns the error of a call that the server refused because its client does not declare a capability
// (2026-07-28, Base Protocol, "Error Codes"). It returns nil for another error, and if clients of the gateway cannot
// have the capability. The metadata name it if the fleet allows its questions.
func (v *server) lacking(ex *exchange) error {
	needs := ex.needs()
	switch {
	case needs == 0:
		return nil
	case needs&^v.settings.questions() != 0:
		return status.Error(&call.Refusal{Kind: call.FailedPrecondition, Reason: questions.Missing,
			Message: "the MCP server requires a client that answers its questions, which mcp_server.questions does " +
				"not allow"}, call.Sent)
	}
	return status.Error(&call.Refusal{Kind: call.FailedPrecondition, Reason: questions.Missing,
		Message: "the MCP server requires a client of MCP that answers its questions; required_capabilities has what " +
			"the client must declare",
		Metadata: map[string]string{questions.Required: needs.Capabilities()}}, call.Sent)
}

// needs returns the kinds of questions that the server's error requires the client to answer; 0 means that it is
// another error, or that it requires something else.
func (ex *exchange) needs() questions.Kinds {
	ex.mu.Lock()
	failure, named := ex.failure, ex.named
	ex.mu.Unlock()
	if failure == nil || !named || failure.Code != sdk.CodeMissingRequiredClientCapabilities {
		return 0
	}
	var data struct {
		Required map[string]map[string]json.RawMessage `json:"requiredCapabilities"`
	}
	if json.Unmarshal(failure.Data, &data) != nil {
		return 0
	}
	return questions.Needed(data.Required)
}
