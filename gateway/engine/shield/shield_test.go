package shield

import "testing"

func FuzzReadVerdict(f *testing.F) {
	f.Add([]byte(`{"decision":"ALLOW","reasoning":"\u202e","action_hash":"x",` +
		`"evaluated_at":"2026-01-01T00:00:00Z","expires_at":"2026-01-01T01:00:00Z"}`))
	f.Add([]byte(`{"decision":["BLOCK"],"expires_at":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := readVerdict(text); (r == nil) != (err != nil) {
			t.Fatalf("%v, %v", r, err)
		}
	})
}
