// Package token authenticates callers by JSON Web Tokens that an OpenID Connect issuer signed.
//
//	Lookup ── cache of verified tokens ───────────────────────────► identity
//	                 │ miss
//	Authenticate ──► parse ──► issuer, by iss ──► key, by kid ──► signature ──► claims ──► cache
//	                                        ▲
//	                    source: discovery and JWKS, periodically
//
// A token is a JWT (RFC 7519) in the compact form of JWS (RFC 7515), of at most 8 KiB. The checks follow RFC 8725 and
// RFC 9068: the issuer is configured, with its algorithms, which are asymmetric; keys come from the configured
// source, never from the token (jku, x5u, jwk and x5c are ignored); aud and exp are required. A caller learns only
// that its token is not accepted, or has expired; the log has the reason at the level debug.
//
// The keys of an issuer are fetched in the background. A token with an unknown key triggers a fetch: a few at once,
// and then at most one every few seconds, whatever the number of such tokens. While the issuer is unavailable, known
// keys stay valid until they are too old.
package token
