package config

import (
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
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
	// Time to answer, and then to make the call.
	TTL time.Duration `yaml:"ttl" min:"1s" max:"24h" default:"10m"`
	// Validity of an answer for a session.
	SessionTTL time.Duration `yaml:"session_ttl" min:"1s" max:"720h" default:"1h"`
	// Who may answer, and how. The first rule that matches a call applies; without one, any approver but its user.
	Rules []approvals.AnswerRule `yaml:"rules" restart:"no"`
	// Destinations of events: channels of Slack and Teams, mailboxes, webhooks; at most 16. Each gets its own
	// events, and a slow one does not delay the others.
	Notices []webhook.Config `yaml:"notices" restart:"no"`
}

// Idempotency is about stored responses of calls with idempotency keys.
type Idempotency struct {
	// Lifetime of a stored response, until its key can be reused. A response of more than 64 KiB is not stored, and a
	// repeated call gets an error. A tenant may have 10,000 keys. Without secret_file calls with idempotency keys are
	// rejected, unless Redis is embedded.
	TTL time.Duration `yaml:"ttl" min:"1s" max:"720h" default:"24h"`
}

// NoShield is the name in a fleet that uses no shield although the file has a default.
const NoShield = "none"

// Shield is an OpenParallax Shield. It has either an address or a url.
type Shield struct {
	// The shield's name in fleets; not none.
	Name string `yaml:"name" kind:"shield" required:"" unique:"true"`
	// host:port of its gRPC server; or url.
	Address string `yaml:"address" kind:"shield_address"`
	// URL of its HTTP form, the path included, as in http://shield:9090/evaluate.
	URL string `yaml:"url" kind:"shield_url"`
	// TLS to it. Default cleartext for an address, the system's authorities for https.
	TLS BackendTLS `yaml:"tls"`
	// Type of the action that it judges: tool is the tool's name alone; capability.tool tells tools of the same name
	// apart. Rules of the published HTTP server see the type only.
	Qualified bool `yaml:"action" enum:"tool,capability.tool" default:"tool"`
	// Timeout of a request.
	Timeout time.Duration `yaml:"timeout" min:"1ms" max:"30s" default:"500ms"`
	// Verdict about calls while it does not respond. An invalid response never allows.
	OnFailure call.Verdict `yaml:"on_failure" default:"block"`
}

// Check checks that there is one address.
func (s *Shield) Check(at strictyaml.At) {
	switch {
	case at.Has("address") && at.Has("url"):
		at.Fail("url", "address is there, too; give one of the two")
	case !at.Has("address") && !at.Has("url"):
		at.Missing("address", "required: host:port of its gRPC server; or the url of its HTTP form")
	}
	if s.TLS.Enabled && strings.HasPrefix(s.URL, "http:") {
		at.Fail("tls", "the url is not https")
	}
}

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
