package gateway_test

import (
	"context"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/mcpsession"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// levelKeys is a store of levels that passes on the keys of sessions.
type levelKeys struct {
	mcpsession.Store
	keys chan mcpsession.Key
}

func (l *levelKeys) SetLevel(_ context.Context, key mcpsession.Key, _ string) error {
	l.keys <- key
	return nil
}

// TestMCPLevelsCountForUsers: the level of a session counts for its user in the limit of the tenant, or for the key if
// the caller names no user.
func TestMCPLevelsCountForUsers(t *testing.T) {
	t.Parallel()
	ring, store := newKeyring(), &levelKeys{keys: make(chan mcpsession.Key, 1)}
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Authenticator = ring.authenticator()
		o.MCP.Keys, o.MCP.Levels = gatewaytest.SharedKeys, mcpsession.New(store)
	})
	owner := func(key string, names ...string) string {
		s := f.session(t, revisions[1], nil, append(names, "X-Api-Key", ring.credentials[key])...)
		//nolint:staticcheck // deprecated, and still a part of the protocol
		check.Must(t, s.SetLoggingLevel(t.Context(), &sdk.SetLoggingLevelParams{Level: "info"}))
		return check.Received(t, store.keys, "the level").Owner
	}
	ann := owner("orchestrator", "x-user-id", "ann")
	for name, same := range map[string]bool{"ann": true, "bob": false} {
		if got := owner("orchestrator", "x-user-id", name, "x-agent-id", "agent"); (got == ann) != same {
			t.Errorf("sessions of ann and %s count for %q and %q", name, ann, got)
		}
	}
	if one, other := owner("acme"), owner("orchestrator"); one == other || one == ann || other == ann {
		t.Errorf("sessions of two keys count for %q and %q, and one of ann for %q", one, other, ann)
	}
}
