package tenants

import (
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/tenant"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// Sources of tenants and keys.
const (
	inRedis = "redis"
	inFile  = "file"
)

// recordOf returns the tenant of a request. had holds the previous limits; nil means none.
func recordOf(t *capgatepb.Tenant, had *tenant.Limits) (*tenant.Record, error) {
	r := &tenant.Record{ID: t.GetId(), Name: t.GetName(), Disabled: t.GetDisabled()}
	if !call.IsZone(r.ID) || r.ID == ownTenant {
		return nil, invalid("tenant.id",
			`it must have 1 to 63 letters, digits, hyphens, dots and underscores, and not be "-"`)
	}
	if err := checkName("tenant.name", r.Name); err != nil {
		return nil, err
	}
	var err error
	if r.Capabilities, err = tenant.ParseGrants(t.GetCapabilities()); err != nil {
		return nil, invalid("tenant.capabilities", err.Error())
	}
	if t.GetLimits() != nil {
		limits := limitsOf(t.GetLimits())
		check := limits.CheckNew
		if had != nil && reflect.DeepEqual(limits, *had) {
			check = limits.Check
		}
		if err := check(); err != nil {
			return nil, invalid("tenant.limits", err.Error())
		}
		r.Limits = &limits
	}
	return r, nil
}

func checkName(field, name string) error {
	if len(name) > maxName || !utf8.ValidString(name) {
		return invalid(field, "it must have at most 256 bytes of UTF-8")
	}
	return nil
}

func tenantOf(r *tenant.Record) *capgatepb.Tenant {
	t := &capgatepb.Tenant{
		Id: r.ID, Name: r.Name, Capabilities: r.Capabilities.Patterns(), Disabled: r.Disabled, Source: inRedis,
		CreateTime: timestamppb.New(r.Created), UpdateTime: timestamppb.New(r.Updated),
		Etag:         strconv.FormatInt(r.Version, 10),
		ResourceName: paging.Name("tenants", r.ID), UpdatedBy: r.UpdatedBy,
	}
	if r.Limits != nil {
		t.Limits = limitsMessage(r.Limits)
	}
	return t
}

func tenantInFile(s *tenant.Settings) *capgatepb.Tenant {
	return &capgatepb.Tenant{
		Id: s.ID, Name: s.Name, Capabilities: s.Capabilities.Patterns(), Limits: limitsMessage(&s.Limits),
		Disabled: s.Disabled, Source: inFile,
		ResourceName: paging.Name("tenants", s.ID),
	}
}

// keyOf returns the message of a key.
func keyOf(k *tenant.Key, source string) *capgatepb.Key {
	return &capgatepb.Key{
		Id: k.ID, Tenant: k.Tenant, Name: k.Name, Scopes: k.Scopes.Names(), Asserts: k.Asserts.Names(),
		ExpireTime: restjson.Time(k.Expires), State: stateOf(k),
		CreateTime: restjson.Time(k.Created), CreatedBy: k.CreatedBy, Replaces: k.Replaces, ReplacedBy: k.ReplacedBy,
		EndTime:    restjson.Time(k.Until),
		RevokeTime: restjson.Time(k.Revoked), Source: source,
		ResourceName: paging.Name("tenants", k.Tenant, "keys", k.ID), UpdateTime: restjson.Time(updated(k)),
	}
}

func updated(k *tenant.Key) time.Time {
	last := k.Created
	for _, t := range []time.Time{k.Replaced, k.Revoked} {
		if t.After(last) {
			last = t
		}
	}
	return last
}

func stateOf(k *tenant.Key) string {
	over := func(end time.Time) bool { return !end.IsZero() && !time.Now().Before(end) }
	switch {
	case !k.Revoked.IsZero():
		return "revoked"
	case over(k.Expires), over(k.Until):
		return "expired"
	case k.ReplacedBy != "":
		return "replaced"
	}
	return "active"
}

func limitsOf(m *capgatepb.Limits) tenant.Limits {
	l := tenant.Limits{
		Bounds: boundsOf(m), BytesPerSecond: m.GetBytesPerSecond(), ArtifactSize: m.GetArtifactSize(),
		Messages: m.GetMessages(), Shadow: m.GetShadow(),
	}
	for _, e := range m.GetEach() {
		l.Each = append(l.Each, tenant.Limit{Per: e.GetPer(), Capability: e.GetCapability(), Tool: e.GetTool(),
			Bounds: boundsOf(e)})
	}
	return l
}

func boundsOf(m interface {
	GetCallsPerSecond() int32
	GetBurst() int32
	GetConcurrent() int32
	GetPerDay() int32
	GetPerMonth() int32
}) tenant.Bounds {
	return tenant.Bounds{
		CallsPerSecond: int(m.GetCallsPerSecond()), Burst: int(m.GetBurst()), Concurrent: int(m.GetConcurrent()),
		PerDay: int(m.GetPerDay()), PerMonth: int(m.GetPerMonth()),
	}
}

func limitsMessage(l *tenant.Limits) *capgatepb.Limits {
	m := &capgatepb.Limits{
		CallsPerSecond: int32(l.CallsPerSecond), Burst: int32(l.Burst), Concurrent: int32(l.Concurrent),
		PerDay: int32(l.PerDay), PerMonth: int32(l.PerMonth),
		BytesPerSecond: l.BytesPerSecond, ArtifactSize: l.ArtifactSize, Messages: l.Messages, Shadow: l.Shadow,
	}
	for i := range l.Each {
		e := &l.Each[i]
		m.Each = append(m.Each, &capgatepb.Limits_Limit{
			Per: e.Per, Capability: e.Capability, Tool: e.Tool,
			CallsPerSecond: int32(e.CallsPerSecond), Burst: int32(e.Burst), Concurrent: int32(e.Concurrent),
			PerDay: int32(e.PerDay), PerMonth: int32(e.PerMonth),
		})
	}
	return m
}
