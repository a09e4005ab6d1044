package cli

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestMasksFollowTheSchema: the approver of a tool with a schema sees everything that the schema does not mark
// as a secret.
func TestMasksFollowTheSchema(t *testing.T) {
	t.Parallel()
	manifest := writeConfig(t, "id: caps\nimage: i\ntools:\n- {name: echo, description: d, recommended_policy: ask, "+
		"input_schema: {type: object, properties: {pin: {type: string, writeOnly: true}}}}\n")
	file := writeConfig(t, strings.Replace(configOf("", gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr),
		"policy: allow", "policy: ask, manifest: "+manifest, 1))
	_, public, admin := serve(t, nil, "--config", file)
	id := asked(t, dial(t, public), "ann", `{"pin": "rm -rf /", "token": "shutdown1", "run": "x --password=reboot1"}`)
	_, out, errs := capgateApprovals(t, admin, "show", id)
	for _, want := range []string{`"pin": [masked: 1 to 8 characters, with spaces, by the tool's schema]`,
		`"token": "shutdown1"`, `"run": "x --password=reboot1"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s%s", want, out, errs)
		}
	}
}
