package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	secretPrefix = "whsec_"
	minSecret    = 24 // bytes; the standard's minimum
	maxSecrets   = 10 // each adds a signature to a request
)

// ParseSecrets parses secrets, one a line: whsec_ and base64, or any other text of at least 24 bytes. Requests
// are signed with all of them, so that receivers can rotate them. The error names lines and quotes nothing.
func ParseSecrets(text []byte) (secrets [][]byte, err error) {
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		secret, err := parseSecret(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if secrets = append(secrets, secret); len(secrets) > maxSecrets {
			return nil, fmt.Errorf("line %d: there are more than %d secrets", n, maxSecrets)
		}
	}
	if len(secrets) == 0 {
		return nil, errors.New("the file has no secret")
	}
	return secrets, nil
}

func parseSecret(line string) ([]byte, error) {
	secret := []byte(line)
	if text, ok := strings.CutPrefix(line, secretPrefix); ok {
		var err error
		if secret, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "=")); err != nil {
			return nil, errors.New("the text after whsec_ is not base64")
		}
	}
	if len(secret) < minSecret {
		return nil, fmt.Errorf("the secret is too short; it must have at least %d bytes", minSecret)
	}
	return secret, nil
}

// sign returns the webhook-signature of a request: one signature for each secret, all of version 1.
func sign(secrets [][]byte, id string, at time.Time, body []byte) string {
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}
