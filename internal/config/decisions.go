package config

import (
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// Policies are the authorization rules that replicas share in Redis.
type Policies struct {
	Enabled bool `yaml:",present"` // the file has the block, even an empty one
	// true: decisions that candidate rules would change are counted.
	Shadow bool `yaml:"shadow" default:"false"`
}

// Cache is a replica's copy in memory of the rules, tenants and API keys in Redis.
type Cache struct {
	// Decisions kept, and as many API keys and tenants.
	Entries int `yaml:"entries" min:"1000" max:"10000000" default:"100000"`
	// Lifetime of an entry, plus or minus a fifth, in case a change was missed.
	TTL time.Duration `yaml:"ttl" min:"1s" max:"1h" default:"1m"`
	// Time for which entries are used while Redis is unavailable; then calls are rejected.
	MaxStale time.Duration `yaml:"max_stale" min:"10s" max:"24h" default:"10m"`
}

// Approvals are calls that need a person's approval.
type Approvals struct {
	// Options have the times of approvals.
	Options approvals.Options `yaml:",inline"`
	// Who may answer, and how. The first rule that matches a call applies; without one, any approver but its user.
	Rules []approvals.AnswerRule `yaml:"rules" restart:"no"`
	// Destinations of events: channels of Slack and Teams, mailboxes, webhooks; at most 16. Each gets its own
	// events, and a slow one does not delay the others.
	Notices []webhook.Config `yaml:"notices" restart:"no"`
}

// NoShield is the name in a fleet that uses no shield although the file has a default.
const NoShield = "none"

// checkShields rejects unknown names, and sets the file's default for fleets that name none.
func (c *Config) checkShields(at strictyaml.At) {
	known := map[string]bool{"": true, NoShield: true}
	for i := range c.Shields {
		known[c.Shields[i].Name] = true
	}
	resolve := func(at strictyaml.At, name string) string {
		if !known[name] {
			at.Fail("shield", "there is no shield %q in shields", name)
		}
		if name == NoShield {
			return ""
		}
		return name
	}
	c.Shield = resolve(at, c.Shield)
	for i := range c.Fleets {
		if f := &c.Fleets[i]; f.Shield == "" {
			f.Shield = c.Shield
		} else {
			f.Shield = resolve(at.Field("fleets").Item(i), f.Shield)
		}
	}
}
