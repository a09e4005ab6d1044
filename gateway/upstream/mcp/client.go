package mcp

import (
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/questions"
)

func (v *server) implementation() *sdk.Implementation {
	return &sdk.Implementation{Name: "capgate", Version: v.all.Version}
}

// These are no kinds of questions.
const (
	apps      questions.Kinds = 1 << 7 // marks sessions whose client declares that it shows apps (MCP Apps)
	following questions.Kinds = 1 << 6 // marks sessions of one replica for subscriptions alone, see follow.go
)

// client returns a client for calls that declares to answer these questions. It has no handlers: an asker answers
// requests of servers in calls, and the SDK refuses all others.
func (v *server) client(kinds questions.Kinds) *sdk.Client {
	declared := &sdk.ClientCapabilities{}
	if kinds&questions.Elicitation != 0 {
		declared.Elicitation = &sdk.ElicitationCapabilities{}
		if kinds&questions.Forms != 0 {
			declared.Elicitation.Form = &sdk.FormElicitationCapabilities{}
		}
		if kinds&questions.URLs != 0 {
			declared.Elicitation.URL = &sdk.URLElicitationCapabilities{}
		}
	}
	//nolint:staticcheck // deprecated, and still a part of the protocol
	if kinds&questions.Sampling != 0 {
		declared.Sampling = &sdk.SamplingCapabilities{}
	}
	//nolint:staticcheck // deprecated, and still a part of the protocol
	if kinds&questions.Roots != 0 {
		declared.RootsV2 = &sdk.RootCapabilities{}
	}
	if kinds&apps != 0 {
		declared.AddExtension(questions.AppsExtension, map[string]any{"mimeTypes": []string{questions.AppType}})
	}
	declared.AddExtension(tasksExtension, nil)
	client := sdk.NewClient(v.implementation(), &sdk.ClientOptions{
		Capabilities: declared, MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	})
	addTasks(client)
	return client
}
