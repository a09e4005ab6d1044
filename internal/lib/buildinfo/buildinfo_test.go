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
