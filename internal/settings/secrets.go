package settings

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy/approvals"
)

// ReadKeys reads a file of keys that encrypt or sign, one a line. Errors quote no key.
func ReadKeys(file string, files Files) (keys [][]byte, err error) {
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
		key := decodeKey(line)
		if len(key) != approvals.KeyBytes {
			return nil, wrongFile(file, "%s:%d: not a key; want %d bytes in base64 or hex, as openssl rand "+
				"-base64 %[3]d prints them", file, n, approvals.KeyBytes)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, wrongFile(file, "%s contains no key", file)
	}
	return keys, nil
}

// decodeKey decodes base64 or hex; nil for other texts.
func decodeKey(text string) []byte {
	if key, err := hex.DecodeString(text); err == nil && len(key) == approvals.KeyBytes {
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

// SameKeys reports whether two lists have the same keys in the same order.
func SameKeys(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

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
