package redisstore

import (
	"crypto/hmac"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/capgate/capgate/internal/tenant"
)

// tenantFields are the mutable fields of a tenant.
func tenantFields(r *tenant.Record) []field {
	limits := coding{func() string {
		if r.Limits == nil {
			return ""
		}
		text, _ := json.Marshal(r.Limits) // never fails for numbers and texts
		return string(text)
	}, func(text string) bool {
		if text == "" {
			return true
		}
		l, err := tenant.ParseLimits([]byte(text))
		r.Limits = &l
		return err == nil
	}}
	capabilities := coding{func() string {
		return strings.Join(r.Capabilities.Patterns(), " ") // patterns contain no spaces
	}, func(text string) bool {
		var err error
		r.Capabilities, err = tenant.ParseGrants(strings.Fields(text))
		return err == nil
	}}
	return []field{{"name", &r.Name}, {"disabled", &r.Disabled}, {"limits", limits}, {"capabilities", capabilities},
		{"by", &r.UpdatedBy}}
}

// parseTenant parses a tenant's fields. A malformed record is rejected as a whole: its parse could grant more than
// was meant.
func parseTenant(id string, f map[string]string) (*tenant.Record, bool) {
	version, err := strconv.ParseInt(f["version"], 10, 64)
	r := &tenant.Record{ID: id, UID: f["uid"], Version: version}
	ok := decodeFields(append(tenantFields(r), field{"created", &r.Created}, field{"updated", &r.Updated}), f)
	return r, ok && r.UID != "" && err == nil && r.Version > 0
}

// keyFields are the fields of a new key.
func keyFields(k *tenant.Key) []field {
	makers := coding{func() string {
		if len(k.Makers) == 0 {
			return ""
		}
		text, _ := json.Marshal(k.Makers) // never fails for texts
		return string(text)
	}, func(text string) bool { return json.Unmarshal([]byte(text), &k.Makers) == nil }}
	return []field{
		{"tenant", &k.Tenant}, {"uid", &k.UID}, {"name", &k.Name}, {"hash", word(&k.Hash, tenant.ParseHash)},
		{"scopes", flags(&k.Scopes, tenant.ParseScope)}, {"asserts", flags(&k.Asserts, tenant.ParseAssert)},
		{"by", &k.CreatedBy}, {"expires", optional{&k.Expires}}, {"from", optional{&k.Replaces}},
		{"first", optional{&k.First}}, {"makers", optional{makers}},
	}
}

// keyEndFields are the fields of a key that scripts write. They can only end the key.
func keyEndFields(k *tenant.Key) []field {
	return []field{{"created", &k.Created}, {"to", &k.ReplacedBy}, {"ends", optional{&k.Until}},
		{"retired", optional{&k.Replaced}}, {"revoked", optional{&k.Revoked}}, {"seal", nil}}
}

// parseKey parses a key's fields. A malformed one is absent.
func parseKey(id string, f map[string]string) (*tenant.Key, bool) {
	k := &tenant.Key{ID: id}
	ok := decodeFields(append(keyFields(k), keyEndFields(k)...), f)
	return k, ok && k.Tenant != ""
}

// flags is the coding of a set of named bits as a list.
func flags[T interface {
	~uint8 | ~uint16
	fmt.Stringer
}](set *T, parse func(string) (T, bool)) coding {
	return coding{func() string { return (*set).String() }, func(text string) bool {
		for name := range strings.SplitSeq(text, ",") {
			one, ok := parse(name)
			if !ok && text != "" {
				return false
			}
			*set |= one
		}
		return true
	}}
}

// signTenant adds the signature to a tenant's fields.
func (t *Tenants) signTenant(id, uid string, fields []any) []any {
	all := valuesOf(fields).pairs()
	all["uid"] = uid
	return t.seal(fields, TenantRecord, t.recordKeys(id)[0], signedTenantFields(all)...)
}

// signedTenantFields are the parts that a tenant's signature covers.
func signedTenantFields(f map[string]string) []string {
	parts := []string{f["uid"]}
	for _, each := range tenantFields(new(tenant.Record)) {
		if text := f[each.name]; text != "" || each.name != "by" { // which older versions do not have
			parts = append(parts, text)
		}
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

// signKey adds the signature to an API key's fields.
func (t *Tenants) signKey(id string, fields []any) []any {
	key := t.apiKey(id)
	return t.seal(fields, KeyRecord, key, sortedFields(valuesOf(fields).pairs(), unsignedKeyFields)...)
}

// unsignedKeyFields are the fields of an API key that its signature does not cover.
var unsignedKeyFields = namesOf(keyEndFields(new(tenant.Key)))
