package toolsets_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/admin/toolsets"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/stored"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/toolset"
	"github.com/capgate/capgate/policy/catalog"
)

// unreadable is a store that accepts changes, and cannot be read then.
type unreadable struct{ stored.Store }

func (unreadable) Changed(context.Context, changefeed.Position) (stored.Changes, error) {
	return stored.Changes{}, errors.New("no answer")
}

// TestUnreadChange: the answer to a change that cannot be read afterwards is not that the toolset is unknown, and the
// audit log has the change.
func TestUnreadChange(t *testing.T) {
	t.Parallel()
	store := gatewaytest.OpenStore(t, "embedded")
	c := catalog.New(catalog.Options{Store: store.Catalog()})
	var trail bytes.Buffer
	log, err := audit.Open(audit.Config{Out: &trail})
	check.Must(t, err)
	p := gatewaytest.ServeOperators(t, toolsets.New(toolsets.Config{
		Toolsets: managed(unreadable{store.Stored(toolset.Kind)}), Catalog: c, Audit: log}))
	walk(t, p, nil, []step{
		{"PUT", "/v1/toolsets/support", `{"tools":[{"capability":"mail"}]}`, 503, "TOOLSETS_UNAVAILABLE"},
		{"DELETE", "/v1/toolsets/support", "", 200, "{}"},
		{"DELETE", "/v1/toolsets/support", "", 404, "TOOLSET_UNKNOWN"},
	})
	log.Close()
	for what, want := range map[string]int{`"toolset.set"`: 1, `"toolset.deleted"`: 1} {
		if n := strings.Count(trail.String(), what); n != want {
			t.Errorf("%d records of %s, want %d: %s", n, what, want, &trail)
		}
	}
}

// overtaken is a store in which another operator changes the toolset before each change of it.
type overtaken struct{ stored.Store }

func (s overtaken) Write(ctx context.Context, r *stored.Record, etag string) error {
	if etag != "" {
		other := *r
		if err := s.Store.Write(ctx, &other, ""); err != nil {
			return err
		}
	}
	return s.Store.Write(ctx, r, etag)
}

// TestAcceptAfterAChange: a tool is accepted only in the toolset that was read for it.
func TestAcceptAfterAChange(t *testing.T) {
	t.Parallel()
	store := gatewaytest.OpenStore(t, "embedded")
	c := catalog.New(catalog.Options{Store: store.Catalog()})
	c.Replace(authored(t, "one"))
	c.Read(t.Context())
	tool, _ := c.Describe("mail", "send")
	p := gatewaytest.ServeOperators(t, toolsets.New(toolsets.Config{
		Toolsets: managed(overtaken{store.Stored(toolset.Kind)}), Catalog: c}))
	of := `"capability":"mail","tool":"send","hash":"` + tool.Hash.String() + `"`
	walk(t, p, nil, []step{
		{"PUT", "/v1/toolsets/support", `{"tools":[{` + of + `}]}`, 200, `"state":"current"`},
		{"POST", "/v1/toolsets/support/accept", `{` + of + `}`, 409, "TOOLSET_CHANGED"},
	})
}
