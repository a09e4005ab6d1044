package cli

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// listener is a client that counts the notifications of changed prompts and resources.
type listener struct {
	public             string
	prompts, resources atomic.Int32
}

// listen connects a client of a revision.
func listen(t *testing.T, public, revision string) *listener {
	t.Helper()
	l := &listener{public: public}
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		PromptListChangedHandler:   func(context.Context, *sdk.PromptListChangedRequest) { l.prompts.Add(1) },
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { l.resources.Add(1) },
	})
	s, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: "http://" + public + "/mcp",
		HTTPClient: &http.Client{Transport: clienttest.Bound(&http.Transport{})}},
		&sdk.ClientSessionOptions{ProtocolVersion: revision})
	check.Must(t, err)
	check.Cleanup(t, func() { _ = s.Close() })
	return l
}

// TestListsChangeAtEachReplica: after a server says that its prompts or resources have changed, clients that listen at
// any replica are notified of the list that has changed, and get the new one. The gateway does not wait until the last
// list is old.
func TestListsChangeAtEachReplica(t *testing.T) {
	t.Parallel()
	server, url := completingServer(t)
	server.AddPrompt(&sdk.Prompt{Name: "first"}, nil)
	server.AddResource(&sdk.Resource{Name: "first", URI: "test://first"}, nil)
	config := writeConfig(t, mcpConfig("policies: {}\n"+patientRedis(redistest.Start(t).URL()),
		mcpFleet("one", url, "")))
	var all []*listener
	for range 2 {
		_, public, _ := serve(t, nil, "--config", config)
		for list, item := range map[string]string{"prompts": "one__first", "resources": "test://first"} {
			check.Until(t, "the first list", func() (bool, string) {
				text := askMCP(t, public, list+"/list", "{}")
				return strings.Contains(text, item), text
			})
		}
		all = append(all, listen(t, public, "2026-07-28"), listen(t, public, "2025-11-25"))
	}
	n := 0
	change := map[string]func(){
		"prompts": func() {
			server.AddPrompt(&sdk.Prompt{Name: "changed", Description: fmt.Sprint(n)}, nil)
		},
		"resources": func() {
			server.AddResource(&sdk.Resource{Name: "changed", URI: "test://changed", Description: fmt.Sprint(n)}, nil)
		},
	}
	of := map[string]func(*listener) int32{
		"prompts":   func(l *listener) int32 { return l.prompts.Load() },
		"resources": func(l *listener) int32 { return l.resources.Load() },
	}
	for _, list := range []string{"prompts", "resources"} {
		check.Until(t, "all clients to be notified of changed "+list, func() (bool, string) {
			n++
			change[list]()
			for _, l := range all {
				if of[list](l) == 0 {
					return false, l.public
				}
			}
			return true, ""
		})
		for _, l := range all {
			if text := askMCP(t, l.public, list+"/list", "{}"); !strings.Contains(text, "changed") {
				t.Errorf("after the notification, the list is %s", text)
			}
			if list == "prompts" && l.resources.Load() > 0 {
				t.Error("a client was notified of a list that has not changed")
			}
		}
	}
}
