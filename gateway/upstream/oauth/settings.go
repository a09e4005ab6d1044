package oauth

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/lib/weburl"
)

// Values of Settings.Grant.
const (
	ClientCredentials = "client_credentials"
	AuthorizationCode = "authorization_code"
)

// Settings of the access tokens for the servers of a fleet.
type Settings struct {
	// OAuth grant. client_credentials authenticates the gateway itself. authorization_code needs the login of an
	// operator, by capgate fleets login.
	Grant string `yaml:"grant" required:"" enum:"client_credentials,authorization_code"`
	// URL of the authorization server, as in its metadata; https, unless it is loopback. Credentials of the client are
	// sent to no other one. Required with client_credentials and with a credential.
	Issuer string `yaml:"issuer" max:"2048"`
	// ID of the gateway as a client of the authorization server. Required with client_credentials and with a
	// credential.
	ClientID string `yaml:"client_id" max:"512"`
	// File with the secret of the client. It is read again when it changes.
	SecretFile string `yaml:"client_secret_file" kind:"file"`
	// File with the private key of the client, PKCS #8 PEM, which signs a JWT in place of a secret. It is read again
	// when it changes.
	KeyFile string `yaml:"private_key_file" kind:"file"`
	// ID of the private key at the authorization server, kid of the JWT. Default none.
	KeyID string `yaml:"private_key_id" max:"512"`
	// Scopes of the tokens. Default those that the servers require.
	Scopes []string `yaml:"scopes" min:"1" max:"64" unique:"true"`
	// Authorities that may vouch for the authorization server, PEM. Default the system's.
	CAFile string `yaml:"ca_file" kind:"file"`
}

// NeedsLogin reports whether the tokens are those of the login of an operator. s may be nil.
func (s *Settings) NeedsLogin() bool { return s != nil && s.Grant == AuthorizationCode }

// Check implements strictyaml.Checker.
func (s *Settings) Check(at strictyaml.At) {
	if s.Issuer != "" {
		if err := checkURL(s.Issuer); err != nil {
			at.Fail("issuer", "%s", err)
		}
	}
	keyed := s.SecretFile != "" || s.KeyFile != ""
	switch {
	case s.SecretFile != "" && s.KeyFile != "":
		at.Fail("private_key_file", "client_secret_file is there, too; give one of the two")
	case s.Grant == AuthorizationCode && s.KeyFile != "":
		at.Fail("private_key_file", "is only for grant: client_credentials")
	case s.Grant == ClientCredentials && !keyed:
		at.Fail("grant", "client_credentials needs client_secret_file or private_key_file")
	}
	for field, value := range map[string]string{"issuer": s.Issuer, "client_id": s.ClientID} {
		if value == "" && (keyed || s.Grant == ClientCredentials) {
			at.Missing(field, "required: a credential of a client is for one authorization server and one client_id")
		}
	}
	if s.KeyID != "" && s.KeyFile == "" {
		at.Fail("private_key_id", "needs private_key_file")
	}
	for _, scope := range s.Scopes {
		if !isScope(scope) {
			at.Fail("scopes", "%q is not a scope", scope)
		}
	}
}

// checkURL checks the URL of an authorization server, or of its token endpoint.
func checkURL(text string) error {
	u, err := weburl.ParseBare(text, "https://login.example.com")
	if err == nil && weburl.IsCleartext(u) {
		err = errors.New("is cleartext HTTP; use https")
	}
	return err
}

// isScope reports whether a text is a scope (RFC 6749 §3.3).
func isScope(text string) bool {
	return text != "" && len(text) <= maxScope && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '"' || r == '\\'
	})
}

// maxScope is the maximum length of a scope, in bytes.
const maxScope = 512

// Credential is the content of the files of Settings. Two with the same content are equal.
type Credential struct{ secret, key, authorities string }

// Secret returns the secret of the client; "" means none.
func (c *Credential) Secret() string { return c.secret }

// Files reads files.
type Files interface {
	Read(name string) ([]byte, error)
	// Wrong returns an error about the content of a file.
	Wrong(name string, err error) error
}

// Read reads the files.
func (s *Settings) Read(files Files) (c Credential, _ error) {
	for _, of := range []struct {
		field, file string
		to          *string
		check       func(text string) error
	}{
		{"client_secret_file", s.SecretFile, &c.secret, checkSecret},
		{"private_key_file", s.KeyFile, &c.key, checkKey},
		{"ca_file", s.CAFile, &c.authorities, checkAuthorities},
	} {
		if of.file == "" {
			continue
		}
		text, err := files.Read(of.file)
		if err != nil {
			return c, fmt.Errorf("oauth.%s: %w", of.field, err)
		}
		*of.to = strings.TrimRight(string(text), "\r\n")
		if err = of.check(*of.to); err != nil {
			return c, files.Wrong(of.file, fmt.Errorf("oauth.%s: %w", of.field, err))
		}
	}
	return c, nil
}

func checkSecret(text string) error {
	if text == "" || strings.ContainsAny(text, "\r\n") {
		return errors.New("it must have one line, the secret")
	}
	return nil
}

func checkAuthorities(text string) error {
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(text)) {
		return errors.New("it contains no PEM certificate")
	}
	return nil
}
