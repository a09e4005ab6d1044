package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/config"
)

// TestDeadlineOff: only fleets that are not capabilities may leave the time of calls to their callers.
func TestDeadlineOff(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{
		"deadline: off, services: [p.S]":   "",
		"deadline: 'off', services: [p.S]": "",
		"deadline: off":                    "f:1: fleets[0].deadline: off is only for fleets that are not capabilities",
		"deadline: off, services: [p.S], manifest: m.yaml": "f:1: fleets[0].deadline: off is only for fleets that " +
			"are not capabilities",
		"deadline: on, services: [p.S]":       `f:1: fleets[0].deadline: "on" is not possible; it must be off`,
		"deadline: {off: true}":               "f:1: fleets[0].deadline.off: unknown field",
		"deadline: none, services: [p.S]":     `f:1: fleets[0].deadline: "none" is not possible; it must be off`,
		"deadline: 1h, services: [p.S]":       `f:1: fleets[0].deadline: "1h" is not possible; it must be off`,
		"deadline: {max: 1m}":                 "",
		"deadline: [off], services: [p.S]":    "f:1: fleets[0].deadline: must be",
		"deadline: false, services: [p.S]":    `f:1: fleets[0].deadline: "false" is not possible; it must be off`,
		"deadline: {max: off}, services: [s]": `f:1: fleets[0].deadline.max: "off" is not possible`,
	} {
		t.Run(fields, func(t *testing.T) {
			t.Parallel()
			cfg, err := config.Parse("f", fmt.Appendf(nil, "fleets: [{capability: a, backends: ['b:1'], %s}]", fields))
			if (want == "") != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), want) {
				t.Fatalf("%v, want %s", err, want)
			}
			if err == nil && (cfg.Fleets[0].Deadlines.Off != strings.Contains(fields, "off") ||
				cfg.Fleets[0].Deadlines.Default > 120*time.Second || cfg.Fleets[0].Deadlines.Default == 0) {
				t.Errorf("%+v", cfg.Fleets[0].Deadlines)
			}
		})
	}
}
