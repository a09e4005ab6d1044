package config_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

func TestParseLimits(t *testing.T) {
	t.Parallel()
	got, err := config.Parse("f", []byte(`
fleets: [{capability: a, backends: []}]
limits: {calls_per_second: 100, burst: 200, concurrent: 50, per_day: 3, per_month: 4, bytes_per_second: 10MiB,
  artifact_size: 1.5kB, messages: 7, shadow: true,
  each: [{per: user, calls_per_second: 5}, {capability: weather, tool: "*", concurrent: 2}]}
tenants:
  - {id: none, capabilities: []}
  - {id: any, capabilities: ["*"], limits: {}}
  - {id: some, capabilities: ["*"], limits: {per_day: 9}}
`))
	check.Must(t, err)
	want := tenant.Limits{
		Bounds:         tenant.Bounds{CallsPerSecond: 100, Burst: 200, Concurrent: 50, PerDay: 3, PerMonth: 4},
		BytesPerSecond: 10 << 20, ArtifactSize: 1500, Messages: 7, Shadow: true,
		Each: []tenant.Limit{{Per: "user", Bounds: tenant.Bounds{CallsPerSecond: 5}},
			{Capability: "weather", Tool: "*", Bounds: tenant.Bounds{Concurrent: 2}}},
	}
	if !reflect.DeepEqual(got.Limits, want) {
		t.Errorf("%+v, want %+v", got.Limits, want)
	}
	own := []*tenant.Limits{nil, {}, {Bounds: tenant.Bounds{PerDay: 9}}}
	for i, t2 := range got.Tenants {
		if !reflect.DeepEqual(t2.Limits, own[i]) {
			t.Errorf("%s: %+v, want %+v", t2.ID, t2.Limits, own[i])
		}
	}
}

func TestParseLimitsErrors(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range tenant.MaxEach + 1 {
		fmt.Fprintf(&many, "{tool: t%d, per_day: 1},", i)
	}
	for limits, want := range map[string]string{
		"{calls_per_second: 0}":             "f:2: limits.calls_per_second: \"0\" is not possible",
		"{burst: 5}":                        "f:2: limits: burst has no effect without calls_per_second",
		"{bytes_per_second: 10Mi}":          "limits.bytes_per_second: \"10Mi\" is not possible; it must be a size",
		"{artifact_size: 0}":                "limits.artifact_size: \"0\" is not possible; it must be a size",
		"{messages: -1}":                    "limits.messages",
		"{per_hour: 1}":                     "limits.per_hour: unknown field",
		"{each: [{per: user}]}":             "f:2: limits.each[0]: it limits nothing",
		"{each: [{per: key, per_day: 1}]}":  "limits.each[0]: per must be user, agent or capability",
		"{each: [{tool: '*', per_day: 1}]}": "limits.each[0]: it must name a capability or a tool",
		"\n  each:\n    - {per: user, per_day: 1}\n    - {per: key, per_day: 1}": "f:5: limits.each[1]: per must be " +
			"user, agent or capability",
		"{each: [{capability: 'A', per_day: 1}]}": "limits.each[0].capability: \"A\" " +
			"is not", "{each: [{per: user, per_day: 1}, {per: user, tool: '*', per_day: " +
			"2}]}": "each[1]: each[0] limits the same calls",
		"{per_day: 5, per_month: 4}": "f:2: limits: " +
			"per_month is 4, which is less than per_day, 5",
		"\n  each:\n    - {per: user, per_day: 1}\n    - {per: agent, per_day: 2, per_month: " +
			"1}": "f:5: limits.each[1]: per_month is 1, which is less than per_day, 2",
		"{each: [" + many.String() + "]}": "limits: each has more than 32 items",
	} {
		_, err := config.Parse("f", []byte("fleets: [{capability: a, backends: []}]\nlimits: "+limits+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", limits, err, want)
		}
	}
}
