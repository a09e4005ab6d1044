package redisstore

import (
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/tenant"
)

// tenantFields are the mutable fields of a tenant.
func tenantFields(r *tenant.Record) ([]any, error) {
	var limits []byte
	if r.Limits != nil {
		var err error
		if limits, err = json.Marshal(r.Limits); err != nil {
			return nil, fmt.Errorf("limits: %w", err)
		}
	}
	return []any{
		"name", r.Name, "disabled", strconv.FormatBool(r.Disabled), "limits", string(limits), "by", r.UpdatedBy,
		"capabilities", strings.Join(r.Capabilities.Patterns(), " "), // patterns contain no spaces
	}, nil
}

// parseTenant parses a tenant's fields. A malformed record is rejected as a whole: its parse could grant more than
// was meant.
func parseTenant(id string, f map[string]string) (r *tenant.Record, ok bool) {
	r = &tenant.Record{ID: id, UID: f["uid"], Name: f["name"], UpdatedBy: f["by"]}
	var wrong [4]error
	r.Disabled, wrong[0] = strconv.ParseBool(f["disabled"])
	r.Capabilities, wrong[1] = tenant.ParseGrants(strings.Fields(f["capabilities"]))
	r.Version, wrong[2] = strconv.ParseInt(f["version"], 10, 64)
	if text := f["limits"]; text != "" {
		r.Limits = new(tenant.Limits)
		*r.Limits, wrong[3] = tenant.ParseLimits([]byte(text))
	}
	return r, errors.Join(wrong[:]...) == nil && r.UID != "" && r.Version > 0 &&
		parseMillis(&r.Created, f["created"]) && parseMillis(&r.Updated, f["updated"])
}

// keyFields are the fields of a new key.
func keyFields(k *tenant.Key) []any {
	fields := []any{
		"tenant", k.Tenant, "uid", k.UID, "name", k.Name, "hash", k.Hash.String(), "scopes", k.Scopes.String(),
		"asserts", k.Asserts.String(), "by", k.CreatedBy,
	}
	if !k.Expires.IsZero() {
		fields = append(fields, "expires", strconv.FormatInt(k.Expires.UnixMilli(), 10))
	}
	if k.Replaces != "" {
		fields = append(fields, "from", k.Replaces, "first", k.First)
	}
	if len(k.Makers) > 0 {
		makers, _ := json.Marshal(k.Makers) // never fails for texts
		fields = append(fields, "makers", string(makers))
	}
	return fields
}

// parseKey parses a key's fields. A malformed one is absent.
func parseKey(id string, f map[string]string) (*tenant.Key, bool) {
	k := &tenant.Key{ID: id, Tenant: f["tenant"], Name: f["name"]}
	k.UID, k.CreatedBy, k.Replaces, k.ReplacedBy, k.First = f["uid"], f["by"], f["from"], f["to"], f["first"]
	if text := f["makers"]; text != "" && json.Unmarshal([]byte(text), &k.Makers) != nil {
		return nil, false
	}
	hash, ok := tenant.ParseHash(f["hash"])
	if !ok || k.Tenant == "" || !parseMillis(&k.Created, f["created"]) {
		return nil, false
	}
	k.Hash = hash
	for name, t := range map[string]*time.Time{"expires": &k.Expires, "ends": &k.Until, "retired": &k.Replaced,
		"revoked": &k.Revoked} {
		if text, there := f[name]; there && !parseMillis(t, text) {
			return nil, false
		}
	}
	for _, name := range splitList(f["scopes"]) {
		scope, ok := tenant.ParseScope(name)
		if !ok {
			return nil, false
		}
		k.Scopes |= scope
	}
	for _, name := range splitList(f["asserts"]) {
		what, ok := tenant.ParseAssert(name)
		if !ok {
			return nil, false
		}
		k.Asserts |= what
	}
	return k, true
}

// splitList splits a list. An empty text has no elements.
func splitList(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// signTenant adds the signature to a tenant's fields.
func (t *Tenants) signTenant(id, uid string, fields []any) []any {
	all := fieldsOf(fields)
	all["uid"] = uid
	if seal := t.sign(TenantRecord, t.recordKeys(id)[0], signedTenantFields(all)...); seal != "" {
		fields = append(fields, "seal", seal)
	}
	return fields
}

// signedTenantFields are the parts that a tenant's signature covers.
func signedTenantFields(f map[string]string) []string {
	parts := []string{f["uid"], f["name"], f["disabled"], f["limits"], f["capabilities"]}
	if by := f["by"]; by != "" {
		parts = append(parts, by)
	}
	return parts
}

// signedTenant reports whether a tenant's fields are signed. A deletion switches a tenant off without a new
// signature.
func (t *Tenants) signedTenant(key string, f map[string]string) bool {
	parts := signedTenantFields(f)
	if f["disabled"] == "true" && hmac.Equal([]byte(f["seal"]), []byte(t.sign(TenantRecord, key, parts...))) {
		return true
	}
	parts[2] = "false"
	return t.verify(TenantRecord, key, f["seal"], parts...)
}

// signKey adds the signature to an API key's fields. The fields that are written later can only end the key.
func (t *Tenants) signKey(id string, fields []any) []any {
	key := t.apiKey(id)
	if seal := t.sign(KeyRecord, key, sortedFields(fieldsOf(fields), unsignedKeyFields)...); seal != "" {
		fields = append(fields, "seal", seal)
	}
	return fields
}

// unsignedKeyFields are the fields of an API key that its signature does not cover.
var unsignedKeyFields = map[string]bool{"seal": true, "created": true, "to": true, "ends": true, "retired": true,
	"revoked": true}
