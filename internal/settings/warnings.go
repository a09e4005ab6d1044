package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/gateway/upstream/protocols"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/tenant"
)

// IsManifest reports whether the fields of a text are those of a manifest, and not those of a configuration.
func IsManifest(data []byte) bool {
	var fields map[string]yaml.Node
	if yaml.Unmarshal(data, &fields) != nil {
		return false
	}
	for _, name := range []string{"id", "image", "tools", "tool_source", "class", "resources", "network"} {
		if _, has := fields[name]; has {
			return true
		}
	}
	return false
}

// Check reads the text of a configuration and all that it names. The warnings are about valid fields whose effect may
// not be intended.
func Check(file string, data []byte) (s *Settings, warnings []string, err error) {
	c, err := config.Parse(file, data, protocols.Config()...)
	if err != nil {
		return nil, nil, err
	}
	s, err = WithFiles(c, Files{}, nil)
	if err == nil {
		err = errors.Join(placed(c, []error{checkAudit(c.Audit.Path)})...)
	}
	if text := c.Unguarded(); text != "" {
		err = errors.Join(err, errors.New(text))
	}
	if err != nil {
		return nil, nil, inFile(file, err)
	}
	if c.Multi && c.Redis.URL == config.Default().Redis.URL {
		warnings = append(warnings, forgets(c))
	}
	warnings = slices.Concat(warnings, ListenerWarnings(c), c.Warnings(), answerRuleWarnings(c), s.toolsetWarnings())
	for i := range c.Fleets {
		f := &c.Fleets[i]
		if text := s.allowsNothing(f); text != "" {
			warnings = append(warnings, text)
		}
		if read := s.Upstreams[f.Capability]; read != nil {
			for _, text := range read.Warnings {
				warnings = append(warnings, fmt.Sprintf("fleet %s: %s: %s", f.Capability, protocols.Of(f).Field, text))
			}
		}
	}
	return s, warnings, nil
}

// allowsNothing returns the reason why no tool of a fleet can be called, or "". Neither its policy nor its manifest
// allows a tool. Where rules may, only a fleet counts that has neither of the two.
func (s *Settings) allowsNothing(f *config.Fleet) string {
	m := s.ManifestOf(f)
	if s.Config.Policies.Enabled {
		if !f.HasTools() || f.Own.Policy || m != nil || s.Config.Registration.Manifests {
			return ""
		}
		return fmt.Sprintf("fleet %s: all tools are blocked until a rule allows them: it has no policy and no manifest",
			f.Capability)
	}
	if !f.HasTools() || f.Policy != call.Block || m != nil && m.Dynamic {
		return ""
	}
	why := "it has no manifest"
	if m != nil {
		for i := range m.Tools {
			if m.Tools[i].Recommended != call.Block {
				return ""
			}
		}
		why = "no tool of " + s.manifestFile(f) + " has recommended_policy: allow or ask"
	} else if s.Config.Registration.Manifests {
		return "" // its backends may bring one
	}
	return fmt.Sprintf("fleet %s: all tools are blocked: its policy is block, %s, and there are no rules; set "+
		"policy: allow or ask, or policies: {} for rules", f.Capability, why)
}

// forgets returns the state that a gateway with tenants loses at a restart, because its Redis is embedded.
func forgets(c *config.Config) string {
	if c.Identity.Stored {
		return "redis is embedded: new tenants and API keys are lost at a restart, and other replicas do not see them"
	}
	return "redis is embedded: the usage of tenants' limits, their rules and their approvals are lost at a restart, " +
		"and other replicas do not see them"
}

// inFile prefixes every problem of an error with its file, unless it has a position.
func inFile(file string, err error) error {
	var all []error
	for _, problem := range Problems(err) {
		var at strictyaml.Error
		if !errors.As(problem, &at) {
			problem = fmt.Errorf("%s: %w", file, problem)
		}
		all = append(all, problem)
	}
	return errors.Join(all...)
}

// checkAudit checks the folder of the audit log. The log itself is created when it is needed.
func checkAudit(to string) error {
	if to == "" || to == "stdout" {
		return nil
	}
	folder := filepath.Dir(to)
	switch is, err := os.Stat(folder); {
	case errors.Is(err, fs.ErrNotExist):
		return wrongFile(to, "audit.to: directory %s does not exist", folder)
	case err != nil:
		return wrongFile(to, "audit.to: directory %s cannot be accessed: %w", folder, err)
	case !is.IsDir():
		return wrongFile(to, "audit.to: %s is not a directory", folder)
	}
	return nil
}

// ListenerWarnings names the callers of open listeners, and the tenants that must exist in Redis.
func ListenerWarnings(c *config.Config) (all []string) {
	for i := range c.Listeners {
		l := &c.Listeners[i]
		if c.Anonymous(l) && !l.IsLocal() {
			all = append(all, fmt.Sprintf("listeners[%d]: %s is open: every program that reaches it is %s", i,
				l.Address, c.Everybody(l)))
		}
		id := l.Of.Tenant
		if id != "" && !slices.ContainsFunc(c.Tenants, func(t tenant.Declared) bool { return t.ID == id }) {
			all = append(all, fmt.Sprintf("listeners[%d]: tenant %s is not in the file: calls are rejected unless "+
				"Redis has it", i, id))
		}
	}
	return all
}

// answerRuleWarnings returns warnings about approval rules that cannot be satisfied, judged by the file alone.
func answerRuleWarnings(c *config.Config) (all []string) {
	groups, people := false, len(c.Issuers) > 0
	for i := range c.Issuers {
		groups = groups || c.Issuers[i].Claims.Groups != ""
	}
	for i := range c.Approvals.Rules {
		r := &c.Approvals.Rules[i]
		at := fmt.Sprintf("approvals.rules[%d]", i)
		if len(r.Groups) > 0 && !groups {
			all = append(all, at+": no one can answer, because no issuer has claims.groups")
		}
		if r.Answers > 1 && !people {
			all = append(all, fmt.Sprintf("%s: %d people have to approve, but there are no issuers; only API keys "+
				"count, each as one", at, r.Answers))
		}
		if r.Answers > 1 && c.Operators.Insecure {
			all = append(all, at+": operators.insecure: answers at the admin API do not count for several people")
		}
		for j := range i {
			if o := &c.Approvals.Rules[j]; covers(o.Tenant, r.Tenant) && covers(o.Capability, r.Capability) &&
				covers(o.Tool, r.Tool) {
				all = append(all, fmt.Sprintf("%s never applies: approvals.rules[%d] matches the same calls before it",
					at, j))
				break
			}
		}
	}
	return all
}

func covers(pattern, name string) bool { return pattern == "*" || pattern == name }
