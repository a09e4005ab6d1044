package settings

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/tenant"
)

// ReadSecrets reads a file of secrets from which keys are derived, one a line. Errors quote no secret.
func ReadSecrets(file string, files Files) (all [][]byte, err error) {
	data, err := files.Read(file)
	if err != nil {
		return nil, err
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		secret := decodeSecret(line)
		if len(secret) != sharedkey.Bytes {
			return nil, wrongFile(file, "%s:%d: not a secret; want %d bytes in base64 or hex, as openssl rand "+
				"-base64 %[3]d prints them", file, n, sharedkey.Bytes)
		}
		all = append(all, secret)
	}
	if len(all) == 0 {
		return nil, wrongFile(file, "%s contains no secret", file)
	}
	return all, nil
}

// decodeSecret decodes base64 or hex; nil for other texts.
func decodeSecret(text string) []byte {
	if key, err := hex.DecodeString(text); err == nil && len(key) == sharedkey.Bytes {
		return key
	}
	text = strings.TrimRight(text, "=")
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if key, err := enc.DecodeString(text); err == nil {
			return key
		}
	}
	return nil
}

// readSecret reads a file that holds one line.
func readSecret(file string, files Files) (string, error) {
	data, err := files.Read(file)
	if err != nil {
		return "", err
	}
	secret := strings.TrimRight(string(data), "\r\n")
	if secret == "" {
		return "", wrongFile(file, "%s is empty", file)
	}
	return secret, nil
}

// ReadPepper reads the pepper of key hashes: a file, without its trailing newline.
func ReadPepper(file string, files Files) ([]byte, error) {
	data, err := files.Read(file)
	pepper := bytes.TrimRight(data, "\r\n")
	if err == nil && len(pepper) < tenant.MinPepper {
		err = wrongFile(file, "%s has fewer than %d bytes; create one with openssl rand -base64 32", file,
			tenant.MinPepper)
	}
	return pepper, err
}
