package issuertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Hostile returns tokens that must be rejected, by their fault. attacker is a URL at which some of them claim their
// keys are.
func (i *Issuer) Hostile(t testing.TB, attacker string) map[string]string {
	t.Helper()
	all := i.hostileClaims(t)
	header := func(change map[string]any) map[string]any {
		h := map[string]any{"alg": "ES256", "kid": i.KID(t, "ES256"), "typ": "at+jwt"}
		for name, v := range change {
			h[name] = v
		}
		return h
	}
	claims := i.Claims(nil)
	for name, change := range map[string]map[string]any{
		"crit": {"crit": []string{"exp"}}, "b64": {"b64": false}, "zip": {"zip": "DEF"},
		"a nested token":  {"cty": "JWT"},
		"typ of a logout": {"typ": "logout+jwt"}, "typ of a proof": {"typ": "dpop+jwt"}, "typ is a number": {"typ": 1},
		"alg in lower case": {"alg": "es256"}, "alg of another key": {"alg": "RS256"},
		"alg is a list":  {"alg": []string{"ES256"}},
		"an unknown kid": {"kid": "unknown"}, "kid is a path": {"kid": "../../../../dev/null"},
		"kid is SQL":      {"kid": "x' UNION SELECT 'key"},
		"kid is a number": {"kid": 1}, "a long kid": {"kid": strings.Repeat("k", 600)},
		"kid of another algorithm": {"kid": i.KID(t, "RS256")},
	} {
		all[name] = i.Sign(t, "ES256", header(change), claims)
	}
	all["an algorithm that its key is not for"] = i.Sign(t, "PS256",
		header(map[string]any{"alg": "PS256", "kid": i.KID(t, "RS256")}), claims)
	for _, alg := range []string{"none", "None", "NONE", ""} {
		all["alg "+alg] = Part(t, header(map[string]any{"alg": alg})) + "." + Part(t, claims) + "."
		all["signed, alg "+alg] = i.Sign(t, "ES256", header(map[string]any{"alg": alg}), claims)
	}
	for name, secret := range i.publicTexts(t) {
		all["HS256 with "+name] = signHMAC(t, map[string]any{"alg": "HS256", "kid": i.KID(t, "RS256"), "typ": "JWT"},
			claims, secret)
	}
	i.stolen(t, all, attacker, header, claims)
	i.mangled(t, all, header, claims)
	return all
}

// mangled returns tokens whose text no signer produces.
func (i *Issuer) mangled(
	t testing.TB, all map[string]string, header func(map[string]any) map[string]any, claims map[string]any,
) {
	t.Helper()
	good := i.Token(t, nil)
	parts := strings.Split(good, ".")
	other := strings.Split(i.Token(t, map[string]any{"sub": "eve"}), ".")
	for name, token := range map[string]string{
		"the signature of another token": parts[0] + "." + other[1] + "." + parts[2],
		"no signature":                   parts[0] + "." + parts[1] + ".",
		"two parts":                      parts[0] + "." + parts[1],
		"four parts":                     good + "." + parts[2],
		"a JWE": Part(t, map[string]any{"alg": "RSA-OAEP", "enc": "A256GCM"}) + "." +
			strings.Repeat("AAAA.", 3) + "AAAA",
		"two tokens":                    good + good,
		"two tokens, with a comma":      good + "," + good,
		"two tokens, with a blank":      good + " " + good,
		"padded":                        parts[0] + "=." + parts[1] + "." + parts[2],
		"another text of the signature": parts[0] + "." + parts[1] + "." + loosen(parts[2]),
		"base64 that is none":           parts[0] + "." + "%%%" + "." + parts[2],
		"standard base64": parts[0] + "." + strings.Replace(parts[1], parts[1][:4], "+/+/", 1) + "." +
			parts[2],
		"claims that are no JSON": i.Sign(t, "ES256", header(nil), "{"),
		"claims and more":         i.Sign(t, "ES256", header(nil), asText(t, claims)+"{}"),
		"claims that are a list":  i.Sign(t, "ES256", header(nil), "["+asText(t, claims)+"]"),
		"claims that are null":    i.Sign(t, "ES256", header(nil), "null"),
		"claims that nest": i.Sign(t, "ES256", header(nil),
			strings.Replace(asText(t, claims), "{", `{"x":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)+",",
				1)),
		"a claim twice": i.Sign(t, "ES256", header(nil),
			strings.Replace(asText(t, claims), "{", `{"sub":"eve",`, 1)),
		"a claim twice, escaped": i.Sign(t, "ES256", header(nil),
			strings.Replace(asText(t, claims), "{", `{"\u0073ub":"eve",`, 1)),
		"alg twice": i.Sign(t, "ES256",
			strings.Replace(asText(t, header(nil)), "{", `{"alg":"none",`, 1), claims),
		"a header that is no JSON": i.Sign(t, "ES256", "alg=ES256", claims),
		"a JWS in JSON": `{"payload":"` + parts[1] + `","protected":"` + parts[0] +
			`","signature":"` + parts[2] + `"}`,
		"huge": i.Sign(t, "ES256", header(nil),
			i.Claims(map[string]any{"x": strings.Repeat("x", 8<<10)})),
		"dots":      "..",
		"many dots": strings.Repeat(".", 1000),
	} {
		all[name] = token
	}
}

// hostileClaims returns invalid claims, which get valid signatures.
func (i *Issuer) hostileClaims(t testing.TB) map[string]string {
	t.Helper()
	now := time.Now()
	all := map[string]string{}
	for name, change := range map[string]map[string]any{
		"aud of somebody else": {"aud": "other"}, "no aud": {"aud": nil}, "an empty aud": {"aud": []string{}},
		"aud is a number":            {"aud": 1},
		"aud has a part of the word": {"aud": "capgat"}, "aud has a number": {"aud": []any{"capgate", 1}},
		"iss of somebody else": {"iss": "https://other.example.com"}, "no iss": {"iss": nil},
		"iss with a slash": {"iss": i.URL + "/"}, "iss in capitals": {"iss": strings.ToUpper(i.URL)},
		"iss is a list": {"iss": []string{i.URL}}, "iss and iss": {"iss": nil, "ISS": i.URL},
		"no exp": {"exp": nil}, "exp is text": {"exp": "9999999999"}, "exp is too far": {"exp": 1e300},
		"exp is negative": {"exp": -1}, "exp is null": {"exp": json.RawMessage("null")},
		"expired":           {"exp": now.Add(-2 * time.Minute).Unix()},
		"nbf in the future": {"nbf": now.Add(10 * time.Minute).Unix()}, "nbf is text": {"nbf": "now"},
		"iat in the future": {"iat": now.Add(10 * time.Minute).Unix()},
		"no sub":            {"sub": nil}, "an empty sub": {"sub": ""}, "sub is a number": {"sub": 7},
		"sub with NUL": {"sub": "ann\x00"}, "sub with a line": {"sub": "ann\nbob"},
		"a long sub":          {"sub": strings.Repeat("a", 257)},
		"sub that is no text": {"sub": json.RawMessage(`"\ud800"`)},
		"no tenant":           {"tenant_id": nil}, "an unknown tenant": {"tenant_id": "nobody"},
		"a tenant that is a path": {"tenant_id": "../acme"}, "a tenant with NUL": {"tenant_id": "acme\x00"},
		"a tenant that is a list": {"tenant_id": []string{"acme"}}, "a tenant for all": {"tenant_id": "*"},
		"an empty tenant": {"tenant_id": ""}, "tenant in capitals": {"tenant_id": "ACME"},
		"an ID token": {"at_hash": "MTIzNDU2Nzg5MDEyMzQ1Ng"}, "an ID token of Keycloak": {"typ": "ID"},
		"an ID token with a code": {"c_hash": "MTIzNDU2Nzg5MDEyMzQ1Ng"},
		"an ID token of Cognito":  {"token_use": "id"}, "a refresh token": {"typ": "Refresh"},
		"a logout": {"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}},
	} {
		all[name] = i.Token(t, change)
	}
	return all
}

// publicTexts returns forms of the RSA key that a careless verifier would use as an HMAC secret.
func (i *Issuer) publicTexts(t testing.TB) map[string][]byte {
	t.Helper()
	jwk := i.Key(t, "RS256")
	der, err := x509.MarshalPKIXPublicKey(jwk.Key)
	check.Must(t, err)
	text, err := jwk.MarshalJSON()
	check.Must(t, err)
	block := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	return map[string][]byte{"the public key, PEM": block,
		"the public key, PEM without its end": block[:len(block)-1], "the public key, DER": der,
		"the public key, JWK": text, "nothing": nil}
}

// stolen returns tokens with the signature of an attacker, who names its key in every possible way.
func (i *Issuer) stolen(t testing.TB, all map[string]string, attacker string,
	header func(map[string]any) map[string]any, claims any) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Must(t, err)
	key := &signer{"ES256", i.KID(t, "ES256"), private}
	jwk := jose.JSONWebKey{Key: private.Public(), KeyID: "attacker", Algorithm: "ES256"}
	for name, change := range map[string]map[string]any{
		"by an attacker": nil, "without kid": {"kid": ""}, "jku": {"jku": attacker + "/keys", "kid": "attacker"},
		"jku and a kid that is known": {"jku": attacker + "/keys"},
		"x5u":                         {"x5u": attacker + "/cert", "kid": "attacker"}, "jwk": {"jwk": jwk},
		"jwk of its kid": {"jwk": jwk, "kid": "attacker"},
		"x5c":            {"x5c": []string{"MIIB"}}, "kid is a URL": {"kid": attacker + "/keys"},
	} {
		h := header(change)
		if h["kid"] == "" {
			delete(h, "kid")
		}
		text := Part(t, h) + "." + Part(t, claims)
		signature, err := key.sign([]byte(text), "ES256")
		check.Must(t, err)
		all["stolen: "+name] = text + "." + base64.RawURLEncoding.EncodeToString(signature)
	}
}

func signHMAC(t testing.TB, header, claims any, secret []byte) string {
	t.Helper()
	text := Part(t, header) + "." + Part(t, claims)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// loosen returns another text that careless decoders decode to the same bytes.
func loosen(part string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, part[len(part)-1])
	return part[:len(part)-1] + alphabet[last|1:last|1+1]
}

func asText(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	check.Must(t, err)
	return string(text)
}
