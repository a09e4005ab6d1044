package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/policy"
)

// Policies are the rules of all tenants. It is a policy.Store, a policy.Rules and a policy.Feed.
type Policies struct {
	client
	set string // "policy": the rules in force; "candidates"
}

// Policies returns the rules in force.
func (s *Store) Policies() *Policies { return &Policies{s.client(Policy), "policy"} }

// Candidates returns candidate rules, whose effect is only counted. Their changes are published like those in
// force: both are cached together.
func (p *Policies) Candidates() *Policies { return &Policies{p.client, "candidates"} }

// ruleKey returns the name of a key of a tenant's rules; tenant "" is for the global ones.
func (p *Policies) ruleKey(pattern, tenant string, words ...string) string {
	return p.key(strings.Replace(pattern, "policy", p.set, 1), append([]string{tenant}, words...)...)
}

// ruleKeys returns the keys of a tenant's rules for the capability and tool of n: rules, names, about.
func (p *Policies) ruleKeys(tenant string, n policy.Name) []string {
	return []string{p.ruleKey("{TENANT:policy}:rules", tenant), p.ruleKey("{TENANT:policy}:names", tenant),
		p.ruleKey("{TENANT:policy}:about:CAP:TOOL", tenant, n.Capability, n.Tool)}
}

// ruleField is a rule's name. Sorted, they are by user, agent, capability and tool.
func ruleField(n policy.Name) string {
	return joinWords([]string{n.User, n.Agent, n.Capability, n.Tool})
}

func parseRuleField(field string) (n policy.Name, ok bool) {
	all, ok := splitWords(field, 4)
	if ok {
		n = policy.Name{User: all[0], Agent: all[1], Capability: all[2], Tool: all[3]}
	}
	return n, ok
}

// ruleText is the value of a rule.
type ruleText struct {
	Verdict string `json:"verdict"`
	By      string `json:"by,omitempty"`
	Seal    string `json:"seal,omitempty"`  // of verdict, by and until
	Until   int64  `json:"until,omitempty"` // ms since 1970, when it ends; 0: never
	At      int64  `json:"at"`              // ms since 1970, by Redis' clock
	Since   int64  `json:"since,omitempty"` // time of the first rule of its name; 0: at
}

// Find implements policy.Store. A malformed value blocks.
func (p *Policies) Find(ctx context.Context, tenant string, names []policy.Name) ([]policy.Found, error) {
	fields := make([]string, len(names))
	for i, n := range names {
		fields[i] = ruleField(n)
	}
	key := p.ruleKey("{TENANT:policy}:rules", tenant)
	found, r := make([]policy.Found, len(names)), p.values(ctx, key, fields...)
	for i := range names {
		text, present := r.found()
		if !present {
			continue
		}
		rule, signed, ok := p.parse(key, fields[i], text)
		if !signed {
			continue
		}
		if !ok {
			p.malformed(key)
		}
		found[i] = policy.Found{Present: true, Verdict: rule.Verdict, Expires: rule.Expires}
	}
	return found, r.end()
}

// parse parses the rule in a field of a key. A signed but malformed rule blocks; an unsigned one is absent.
func (p *Policies) parse(key, field, text string) (rule policy.Rule, signed, ok bool) {
	var t ruleText
	bad := json.Unmarshal([]byte(text), &t) != nil
	if !p.verify(RuleRecord, key, t.Seal, ruleParts(field, t.Verdict, t.By, t.Until)...) {
		return policy.Rule{}, false, false
	}
	if bad {
		return policy.Rule{}, true, false
	}
	rule, ok = t.rule()
	return rule, true, ok
}

// rule converts the text. A malformed rule blocks.
func (t *ruleText) rule() (policy.Rule, bool) {
	verdict, ok := call.ParseVerdict(t.Verdict)
	if t.Since == 0 {
		t.Since = t.At
	}
	r := policy.Rule{Verdict: verdict, By: t.By, At: time.UnixMilli(t.At), Since: time.UnixMilli(t.Since)}
	if t.Until != 0 {
		r.Expires = time.UnixMilli(t.Until)
	}
	return r, ok
}

// ruleParts are the signed parts of a rule. A rule without an end has those of older versions.
func ruleParts(field, verdict, by string, until int64) []string {
	parts := []string{field, verdict, by}
	if until != 0 {
		parts = append(parts, strconv.FormatInt(until, 10))
	}
	return parts
}

var setRuleScript = newScript("policies_set")

// Set implements policy.Rules.
func (p *Policies) Set(ctx context.Context, r policy.Rule) error {
	if err := p.addTenant(ctx, r.Tenant); err != nil {
		return err
	}
	until := int64(0)
	if !r.Expires.IsZero() {
		until = r.Expires.UnixMilli()
	}
	was, err := p.write(ctx, r.Tenant, r.Name, r.Verdict.String(), r.By, until)
	if err == nil && was < 0 {
		return policy.ErrFull
	}
	return err
}

// Delete implements policy.Rules.
func (p *Policies) Delete(ctx context.Context, tenant string, n policy.Name) (was bool, err error) {
	held, err := p.write(ctx, tenant, n, "", "", 0)
	return held == 1, err
}

func (p *Policies) write(ctx context.Context, tenant string, n policy.Name, verdict, by string, until int64) (int,
	error) {
	keys, field := p.ruleKeys(tenant, n), ruleField(n)
	was, err := p.run(ctx, setRuleScript, keys, field, verdict, by, policy.MaxRules,
		p.sign(RuleRecord, keys[0], ruleParts(field, verdict, by, until)...), until).Int()
	if err != nil || was < 0 {
		return was, err
	}
	return was, p.publishChange(ctx, policy.Change{Tenant: tenant, Name: n})
}

// publishChange publishes a change. If it fails after the write, replicas see the change when their cache entries
// expire.
func (p *Policies) publishChange(ctx context.Context, c policy.Change) error {
	version, err := p.run(ctx, countChangeScript, []string{p.versionKey(), p.epochKey()}, rand.Text()).Int()
	if err == nil {
		message := joinWords([]string{strconv.Itoa(version), c.Tenant, c.User, c.Agent, c.Capability, c.Tool})
		err = p.publish(ctx, p.channel("policies"), message)
	}
	if err != nil {
		return fmt.Errorf("the rule was written, but other replicas may not have it yet: %w", err)
	}
	return nil
}

// List implements policy.Rules.
func (p *Policies) List(
	ctx context.Context, tenant, after string, most int,
) (rules []policy.Rule, next string, err error) {
	fields, next, err := p.page(ctx, p.ruleKey("{TENANT:policy}:names", tenant), after, most)
	if err != nil || len(fields) == 0 {
		return nil, "", err
	}
	key := p.ruleKey("{TENANT:policy}:rules", tenant)
	r := p.values(ctx, key, fields...)
	for _, field := range fields {
		text, present := r.found()
		name, ok := parseRuleField(field)
		if !present || !ok {
			continue // deleted meanwhile
		}
		rule, signed, ok := p.parse(key, field, text)
		if !signed {
			continue
		}
		if !ok {
			p.malformed(key)
		}
		if !rule.Expires.IsZero() && !time.Now().Before(rule.Expires) {
			p.deleteEnded(ctx, tenant, name, text)
			continue
		}
		rule.Tenant, rule.Name = tenant, name
		rules = append(rules, rule)
	}
	return rules, next, r.end()
}

// Watch implements policy.Feed.
func (p *Policies) Watch(ctx context.Context, changed func(uint64, policy.Change), connected func()) {
	channel := p.channel("policies")
	p.subscribe(ctx, channel, func(message string) {
		if all, ok := splitWords(message, 6); ok {
			if version, err := strconv.ParseUint(all[0], 10, 64); err == nil {
				changed(version, policy.Change{Tenant: all[1],
					Name: policy.Name{User: all[2], Agent: all[3], Capability: all[4], Tool: all[5]}})
				return
			}
		}
		p.malformed(channel)
		connected() // a change was lost
	}, connected)
}

var (
	_ policy.Store = (*Policies)(nil)
	_ policy.Rules = (*Policies)(nil)
	_ policy.Feed  = (*Policies)(nil)
)
