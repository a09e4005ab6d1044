package tenant_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/tenant"
)

func TestCredentials(t *testing.T) {
	t.Parallel()
	ids, secrets := map[string]bool{}, map[string]bool{}
	for range 100 {
		id, secret := tenant.NewCredential()
		gotID, gotSecret, ok := tenant.ParseCredential(tenant.Credential(id, secret))
		if !ok || gotID != id || gotSecret != secret || !tenant.IsKeyID(id) || tenant.IsKeyID(secret) {
			t.Fatalf("%q, %q, %v; ids of keys: %t, %t", gotID, gotSecret, ok, tenant.IsKeyID(id),
				tenant.IsKeyID(secret))
		}
		ids[id], secrets[secret] = true, true
	}
	if len(ids) != 100 || len(secrets) != 100 {
		t.Errorf("some are alike; ids %+v; secrets %+v", ids, secrets)
	}
}

func TestBearer(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"Bearer k": "k", "bearer  k": "k", "BEARER k": "k", "Bearer": "", "Bearer ": "", "Basic k": "", "k": "",
		"": "", "Bearerk": "",
	} {
		if got := tenant.Bearer(value); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}

func TestHashes(t *testing.T) {
	t.Parallel()
	// printf hunter2 | sha256sum, and openssl dgst -sha256 -hmac 0123456789abcdef
	plain, peppered := tenant.HashOf("hunter2", nil), tenant.HashOf("hunter2", []byte("0123456789abcdef"))
	if plain.String() != "sha256:f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7" || plain.Peppered() {
		t.Error(plain)
	}
	if !strings.HasPrefix(peppered.String(), "hmac-sha256:") || !peppered.Peppered() {
		t.Error(peppered)
	}
	for _, h := range []tenant.Hash{plain, peppered} {
		if got, ok := tenant.ParseHash(h.String()); !ok || got != h {
			t.Errorf("%v, %v, %v", h, got, ok)
		}
	}
	pepper := []byte("0123456789abcdef")
	for _, h := range []tenant.Hash{plain, peppered} { // every digit counts
		text := h.String()
		for i := strings.Index(text, ":") + 1; i < len(text); i++ {
			altered := []byte(text)
			altered[i] ^= '0' ^ '1' // another digit
			if other, ok := tenant.ParseHash(string(altered)); ok && other.Matches("hunter2", pepper) {
				t.Errorf("%s matches like %s", altered, text)
			}
		}
		if !h.Matches("hunter2", pepper) || h.Matches("hunter3", pepper) || h.Matches("", pepper) ||
			peppered.Matches("hunter2", nil) {
			t.Errorf("%s matches its secret: %t, another: %t, none: %t; without its pepper: %t", text,
				h.Matches("hunter2", pepper), h.Matches("hunter3", pepper), h.Matches("", pepper),
				peppered.Matches("hunter2", nil))
		}
	}
	for _, wrong := range []string{"", "sha256:", "sha256:00", plain.String()[7:], "md5:" + plain.String()[7:],
		plain.String() + "00", strings.Replace(plain.String(), "f", "g", 1)} {
		if _, ok := tenant.ParseHash(wrong); ok {
			t.Errorf("%q is a hash", wrong)
		}
	}
}

// FuzzCredential: an accepted text is a key, byte for byte.
func FuzzCredential(f *testing.F) {
	for _, seed := range []string{"", "cg_", tenant.Credential(tenant.NewCredential()), strings.Repeat("cg_", 20)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, secret, ok := tenant.ParseCredential(text)
		if ok && tenant.Credential(id, secret) != text {
			t.Errorf("%q is taken for %q, %q", text, id, secret)
		}
		if token := tenant.Bearer("Bearer " + text); token != strings.TrimLeft(text, " ") {
			t.Errorf("%q: %q", text, token)
		}
	})
}
