package webhook

import (
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestSignatureIsTheStandards: the signature equals a test vector of the libraries of Standard Webhooks.
func TestSignatureIsTheStandards(t *testing.T) {
	t.Parallel()
	secrets, err := ParseSecrets([]byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"))
	check.Must(t, err)
	got := sign(secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	const raw = "twenty-four bytes or more"
	secrets, err := ParseSecrets([]byte("\n " + raw + " \r\n\nwhsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw=="))
	if err != nil || len(secrets) != 2 || string(secrets[0]) != raw || len(secrets[1]) != 24 {
		t.Fatalf("got %q, %v", secrets, err)
	}
	if got := sign(secrets, "a", time.Unix(1, 0), nil); strings.Count(got, "v1,") != 2 || strings.Count(got, " ") != 1 {
		t.Errorf("signatures by both: %s", got)
	}
	for name, test := range map[string]struct{ text, want string }{
		"none":       {"\n \n", "the file has no secret"},
		"short":      {raw + "\nsecret-but-short\n", "line 2: the secret is too short"},
		"short key":  {"whsec_c2hvcnQ=", "line 1: the secret is too short"},
		"not base64": {"\nwhsec_!!secret!!", "line 2: the text after whsec_ is not base64"},
		"too many":   {strings.Repeat(raw+"\n", 11), "line 11: there are more than 10"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseSecrets([]byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret-but") ||
				strings.Contains(err.Error(), "!!") {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
