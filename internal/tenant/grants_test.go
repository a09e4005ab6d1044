package tenant_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

func grants(t testing.TB, patterns ...string) tenant.Grants {
	t.Helper()
	g, err := tenant.ParseGrants(patterns)
	check.Must(t, err)
	return g
}

func TestGrants(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ patterns, in, out string }{
		{"", "", "a"},
		{"*", "a weather a-b 7", ""},
		{"weather", "weather", "weathe weather2 weather-x"},
		{"weather calc-*", "weather calc- calc-1 calc-x-y", "calc news"},
		{"*-x a?c", "a-x -x abc", "ac abbc a-xy"},
		{"[a-c]1 [^a-c]2 \\a", "a1 c1 d2 a", "d1 a2 \\a"},
		{"a*b*", "ab a1b2", "a b"},
		{"a b * c", "z", ""},
	} {
		g := grants(t, strings.Fields(test.patterns)...)
		for want, ids := range map[bool]string{true: test.in, false: test.out} {
			for _, id := range strings.Fields(ids) {
				if g.Include(id) != want {
					t.Errorf("%q: %q is %t", test.patterns, id, !want)
				}
			}
		}
		if !slices.Equal(g.Patterns(), strings.Fields(test.patterns)) {
			t.Errorf("%q: %q", test.patterns, g.Patterns())
		}
	}
	for _, wrong := range []string{"", "[", "a[", "A", "a b", "a *", "*\n", "a_b", "\\", strings.Repeat("a", 64),
		strings.Repeat("*", 129)} {
		if _, err := tenant.ParseGrants([]string{"a", wrong}); err == nil || tenant.CheckGrant(wrong) == "" {
			t.Errorf("%q is taken; err %+v", wrong, err)
		}
	}
	if _, err := tenant.ParseGrants(slices.Repeat([]string{"a"}, 257)); err == nil {
		t.Error("too many are taken")
	}
}

func TestSettingsSee(t *testing.T) {
	t.Parallel()
	if none := (*tenant.Settings)(nil); !none.Sees("a") {
		t.Error("a gateway without tenants hides something")
	}
	if (&tenant.Settings{}).Sees("a") {
		t.Error("nothing was granted")
	}
}

// FuzzGrants: a list of patterns includes an id if path.Match says so for any of them.
func FuzzGrants(f *testing.F) {
	for _, seed := range []string{"*", "a", "a*", "*a", "a?[b-d]*", "\\*", "a-*", "[^a]", "a**", "a[*"} {
		f.Add(seed, "b", "abc")
	}
	f.Fuzz(func(t *testing.T, one, two, id string) {
		g, err := tenant.ParseGrants([]string{one, two})
		if err != nil {
			return
		}
		first, _ := path.Match(one, id)
		second, _ := path.Match(two, id)
		if !strings.Contains(id, "/") && g.Include(id) != (first || second) {
			t.Errorf("%q, %q: %q is %t", one, two, id, g.Include(id))
		}
	})
}

func TestGrantsCostNothing(t *testing.T) {
	s := &tenant.Settings{Capabilities: grants(t, "weather", "calc-*", "a?c")}
	if n := testing.AllocsPerRun(100,
		func() { _ = s.Sees("weather") && s.Sees("calc-1") && s.Sees("abc") && s.Sees("news") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGrants(b *testing.B) {
	names := make([]string, 256)
	for i := range names {
		names[i] = fmt.Sprintf("capability-%d", i)
	}
	for name, patterns := range map[string][]string{"all": {"*"}, "one of 256 names": names,
		"prefix": {"calc-*", "capability-*"}, "pattern": {"capability-?[0-9]"}} {
		s := &tenant.Settings{Capabilities: grants(b, patterns...)}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !s.Sees("capability-77") {
					b.Fatal("hidden")
				}
			}
		})
	}
}
