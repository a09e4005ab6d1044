package token

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// maxToken is the longest token, in bytes.
const maxToken = 8 << 10

// maxKID is the longest id of a key, in bytes.
const maxKID = 512

// LooksLikeToken reports whether a credential has the form of a token.
func LooksLikeToken(credential string) bool { return strings.Count(credential, ".") == 2 }

// unverified has the unverified header and issuer of a token.
type unverified struct {
	alg, kid string
	access   bool // typ is that of an access token (RFC 9068 §2.1)
	issuer   string
}

// parse parses the parts of a token that select its issuer and key.
func parse(raw string) (u unverified, err error) {
	parts := strings.Split(raw, ".")
	if len(raw) > maxToken || len(parts) != 3 {
		return u, errors.New("it is too long, or does not have three parts")
	}
	header, err := decodePart(parts[0])
	if err != nil {
		return u, fmt.Errorf("header: %w", err)
	}
	claims, err := decodePart(parts[1])
	if err != nil {
		return u, fmt.Errorf("claims: %w", err)
	}
	if _, err = decode64(parts[2]); err != nil || parts[2] == "" {
		return u, errors.New("signature: is not base64url")
	}
	if err = u.readHeader(header); err != nil {
		return u, fmt.Errorf("header: %w", err)
	}
	if u.issuer, err = claims.text("iss"); err != nil {
		return u, err
	}
	return u, nil
}

// readHeader rejects headers that change the interpretation of a token (RFC 7515 §4.1.11, RFC 7797, RFC 7516), and
// other kinds of tokens (RFC 8725 §3.11).
func (u *unverified) readHeader(header object) (err error) {
	for _, name := range [...]string{"crit", "b64", "enc", "zip", "cty"} {
		if _, has := header[name]; has {
			return errors.New(name + " is not supported")
		}
	}
	if u.alg, err = header.text("alg"); err != nil {
		return err
	}
	if _, has := header["kid"]; has {
		if u.kid, err = header.text("kid"); err != nil || len(u.kid) > maxKID {
			return errors.New("kid is not a valid id")
		}
	}
	var typ string
	if _, has := header["typ"]; has {
		if typ, err = header.text("typ"); err != nil {
			return err
		}
	}
	switch strings.TrimPrefix(strings.ToLower(typ), "application/") {
	case "at+jwt":
		u.access = true
		return nil
	case "", "jwt":
		return nil
	}
	return errors.New("typ is another kind of token")
}

func decodePart(part string) (object, error) {
	data, err := decode64(part)
	if err != nil {
		return nil, err
	}
	return decodeObject(data)
}

// decode64 accepts exactly one text for the same bytes, unlike RawURLEncoding.
func decode64(part string) ([]byte, error) {
	if strings.ContainsAny(part, "\r\n") {
		return nil, errors.New("is not base64url")
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return nil, errors.New("is not base64url")
	}
	return data, nil
}
