// Package token finds out who calls by a JSON Web Token that an OpenID Connect issuer signed.
//
//	Identify ── cache of verified tokens ─────────────────────────► who calls
//	                 │ not there
//	Ask ──► parse ──► issuer, by iss ──► key, by kid ──► signature ──► claims ──► cache
//	                                        ▲
//	                    source: discovery, JWKS, again and again
//
// A token is what RFC 7519 and RFC 7515 call a JWT as a compact JWS, of at most 8 KiB. What is
// checked follows RFC 8725 and RFC 9068: the issuer is configured, and its algorithms, which
// are asymmetric; keys come from where the configuration says, never from the token (jku, x5u,
// jwk and x5c are not looked at); aud and exp must be there. A caller is told no more than
// that its token is not accepted, or has expired; why is in the log at the level debug.
//
// The keys of an issuer are fetched beside the calls. A token whose key is unknown has them
// fetched anew, a few times at once and then every few seconds at most, whoever sends such
// tokens. While the issuer is unavailable the keys that are known go on until they are too old.
package token
