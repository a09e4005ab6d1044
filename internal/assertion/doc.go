// Package assertion describes the caller of a request to a server behind the gateway: with a JWT (RFC 7519) that is
// valid for a minute, signed with ES256. All replicas derive the key from their secret.
//
//	caller.go  the caller, and the claims about it
//	key.go     the keys, and the JWK Set that servers verify with
//	signer.go  the signer, which follows the secret
package assertion
