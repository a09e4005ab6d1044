package redisstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/tenant"
)

// tenantFields are what can be changed of a tenant.
func tenantFields(s *tenant.Settings) ([]any, error) {
	limits, err := json.Marshal(s.Limits)
	if err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	return []any{"name", s.Name, "disabled", strconv.FormatBool(s.Disabled), "limits", string(limits),
		"capabilities", strings.Join(s.Capabilities.Patterns(), " ")}, nil // no pattern has a space in it
}

// parseTenant reads a tenant's fields. Of one that cannot be understood nothing is taken: it
// might have less than what is understood.
func parseTenant(id string, f map[string]string) (*tenant.Record, bool) {
	s := tenant.Settings{ID: id, Name: f["name"]}
	var err, wrong error
	s.Disabled, err = strconv.ParseBool(f["disabled"])
	s.Limits, wrong = tenant.ParseLimits([]byte(f["limits"]))
	err = errors.Join(err, wrong)
	s.Capabilities, wrong = tenant.ParseGrants(strings.Fields(f["capabilities"]))
	if err = errors.Join(err, wrong); err != nil || f["uid"] == "" {
		return nil, false
	}
	r := tenant.NewRecord(f["uid"], s)
	r.Version, err = strconv.ParseInt(f["version"], 10, 64)
	return r, err == nil && r.Version > 0 && readTime(&r.Created, f["created"]) && readTime(&r.Updated, f["updated"])
}

// keyFields are those that a key is made with.
func keyFields(k *tenant.Key) []any {
	fields := []any{
		"tenant", k.Tenant, "uid", k.UID, "name", k.Name, "hash", k.Hash.String(), "scopes", k.Scopes.String(),
		"asserts", k.Asserts.String(), "by", k.By,
	}
	if !k.Expires.IsZero() {
		fields = append(fields, "expires", strconv.FormatInt(k.Expires.UnixMilli(), 10))
	}
	if k.From != "" {
		fields = append(fields, "from", k.From)
	}
	return fields
}

// parseKey reads a key's fields. One that cannot be understood is none.
func parseKey(id string, f map[string]string) (*tenant.Key, bool) {
	k := &tenant.Key{ID: id, Tenant: f["tenant"], Name: f["name"]}
	k.UID, k.By, k.From, k.To = f["uid"], f["by"], f["from"], f["to"]
	hash, ok := tenant.ParseHash(f["hash"])
	if !ok || k.Tenant == "" || !readTime(&k.Created, f["created"]) {
		return nil, false
	}
	k.Hash = hash
	for name, t := range map[string]*time.Time{"expires": &k.Expires, "ends": &k.Ends, "revoked": &k.Revoked} {
		if text, there := f[name]; there && !readTime(t, text) {
			return nil, false
		}
	}
	for _, name := range listed(f["scopes"]) {
		scope, ok := tenant.ParseScope(name)
		if !ok {
			return nil, false
		}
		k.Scopes |= scope
	}
	for _, name := range listed(f["asserts"]) {
		what, ok := tenant.ParseAssert(name)
		if !ok {
			return nil, false
		}
		k.Asserts |= what
	}
	return k, true
}

// listed are the words of a list; an empty text has none.
func listed(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
