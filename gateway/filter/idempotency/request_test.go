package idempotency

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// TestRequests: a repeat has the owner and the content of the first call. The doc and the live dialect share responses.
// A tenant that was deleted and created again under the same id is another owner.
func TestRequests(t *testing.T) {
	t.Parallel()
	doc, err := proto.Marshal(&docpb.InvokeRequest{ToolName: "send", ArgsJson: []byte("{}")})
	check.Must(t, err)
	legacy, err := proto.Marshal(&legacypb.InvokeRequest{ToolName: "send", Parameters: "{}"})
	check.Must(t, err)
	settings := func(uid string) *tenant.Settings {
		return (&tenant.Record{ID: "acme", UID: uid}).Settings(&tenant.Limits{})
	}
	of := func(change func(*filter.Served)) *idempotency.Request {
		v := &filter.Served{Call: call.Call{Method: call.Invoke, Dialect: call.Doc, Tenant: "acme", User: "ann",
			Agent: "bot", Capability: "mail", Session: "s"}, Caller: tenant.Identity{Settings: settings("1")}}
		change(v)
		msg := doc
		if v.Call.Dialect == call.Legacy {
			msg = legacy
		}
		r, err := requestOf(v, &keyed{key: "k"}, msg)
		check.Must(t, err)
		return r
	}
	first := of(func(*filter.Served) {})
	for name, test := range map[string]struct {
		change func(*filter.Served)
		same   bool
	}{
		"nothing else":        {func(*filter.Served) {}, true},
		"the live dialect":    {func(v *filter.Served) { v.Call.Dialect = call.Live }, true},
		"the legacy dialect":  {func(v *filter.Served) { v.Call.Dialect = call.Legacy }, false},
		"another tenant":      {func(v *filter.Served) { v.Call.Tenant = "globex" }, false},
		"a tenant made again": {func(v *filter.Served) { v.Caller.Settings = settings("2") }, false},
		"another user":        {func(v *filter.Served) { v.Call.User = "bob" }, false},
		"another agent":       {func(v *filter.Served) { v.Call.Agent = "" }, false},
		"another capability":  {func(v *filter.Served) { v.Call.Capability = "news" }, false},
		"another session":     {func(v *filter.Served) { v.Call.Session = "" }, false},
	} {
		if got := of(test.change); reflect.DeepEqual(got, first) != test.same {
			t.Errorf("%s: %+v, and the first %+v", name, got, first)
		}
	}
}
