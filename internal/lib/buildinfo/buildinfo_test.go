package buildinfo

import "testing"

// TestUserAgent: a version is in the User-Agent, unless it is none.
func TestUserAgent(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v0.1.0":                  "capgate-webhook/v0.1.0",
		"v0.2.0-rc.1":             "capgate-webhook/v0.2.0-rc.1",
		"v0.1.0-3-gded4744-dirty": "capgate-webhook/v0.1.0-3-gded4744-dirty",
		"(devel)":                 "capgate-webhook",
		"unknown":                 "capgate-webhook",
		"v1 x":                    "capgate-webhook",
	} {
		if got := userAgent("capgate-webhook", version); got != want {
			t.Errorf("%q: %q, not %q", version, got, want)
		}
	}
}

// TestGet: every field has a value.
func TestGet(t *testing.T) {
	t.Parallel()
	if i := Get(); i.Version == "" || i.Commit == "" || i.Date == "" {
		t.Errorf("%+v", i)
	}
}

// TestOfPseudo: the version of a commit without a tag says which one it is; others do not.
func TestOfPseudo(t *testing.T) {
	t.Parallel()
	for version, want := range map[string][2]string{
		"v0.0.0-20261129150306-5fe44a1c0123":         {"5fe44a1c0123", "2026-11-29T15:03:06Z"},
		"v0.2.1-0.20261129150306-5fe44a1c0123":       {"5fe44a1c0123", "2026-11-29T15:03:06Z"},
		"v0.2.0-rc.1.0.20261129150306-5fe44a1c0123":  {"5fe44a1c0123", "2026-11-29T15:03:06Z"},
		"v0.2.1-0.20261129150306-5fe44a1c0123+dirty": {"5fe44a1c0123", "2026-11-29T15:03:06Z"},
		"v0.0.0-20261399150306-5fe44a1c0123":         {},
		"v0.1.0":                                     {},
		"v0.1.0-3-gded4744-dirty":                    {},
		"(devel)":                                    {},
	} {
		if commit, date := ofPseudo(version); commit != want[0] || date != want[1] {
			t.Errorf("%s: %q %q", version, commit, date)
		}
	}
}
