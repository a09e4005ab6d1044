package tenant_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

func TestLimitsOfNothing(t *testing.T) {
	t.Parallel()
	var l tenant.Limits
	if err := l.Check(); l.Counted() || err != nil {
		t.Errorf("the zero value limits something: %t, %v", l.Counted(), err)
	}
	for _, text := range []string{"", "{", "[]", `{"x":1}`, `{"calls_per_second":-1}`, `{"calls_per_second":1e10}`,
		`{"messages":-1}`, `{} {}`, `{"burst":1}`} {
		if got, err := tenant.ParseLimits([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// TestLimitsThatAreThere: stored limits are accepted even if they could not be set now.
func TestLimitsThatAreThere(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"per_day":5,"per_month":4}`,
		`{"each":[{"per":"user","per_day":5,"per_month":4}]}`} {
		l, err := tenant.ParseLimits([]byte(text))
		if err != nil || l.CheckNew() == nil {
			t.Errorf("%s: %v; set now: %v", text, err, l.CheckNew())
		}
	}
	for _, sound := range []tenant.Bounds{{PerMonth: 4}, {PerDay: 5}, {PerDay: 5, PerMonth: 5}} {
		if l := (tenant.Limits{Bounds: sound}); l.CheckNew() != nil {
			t.Errorf("%+v: %v", sound, l.CheckNew())
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "4096": 4096, "1B": 1, "10MiB": 10 << 20, "1.5kB": 1500,
		"2 GB": 2e9, "1TiB": 1 << 40} {
		if got, ok := tenant.ParseSize(text); !ok || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, ok, want)
		}
	}
	for _, wrong := range []string{"", "MiB", "-1", "1.5", "NaN", "Inf", "1e300", "1 2", "5mib", "2000TiB"} {
		if got, ok := tenant.ParseSize(wrong); ok {
			t.Errorf("%q is %d", wrong, got)
		}
	}
}

// FuzzLimits: parsed limits are valid, and equal after a round trip.
func FuzzLimits(f *testing.F) {
	f.Add([]byte(`{"calls_per_second":100,"burst":200,"concurrent":50,"per_day":1,"each":[` +
		`{"per":"user","calls_per_second":5},{"capability":"weather","tool":"*","per_month":7}],"shadow":true}`))
	f.Add([]byte(`{"bytes_per_second":10485760,"artifact_size":1,"messages":3}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := tenant.ParseLimits(text)
		if err != nil {
			return
		}
		check.Must(t, l.Check())
		out, err := json.Marshal(l)
		check.Must(t, err)
		again, err := tenant.ParseLimits(out)
		if len(l.Each) == 0 {
			l.Each = again.Each // an empty list is left out
		}
		if err != nil || !reflect.DeepEqual(l, again) {
			t.Errorf("%+v became %+v, %v", l, again, err)
		}
	})
}
