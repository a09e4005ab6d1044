// Package assertion tells a server behind the gateway who the caller of a request is: by a JSON Web Token (RFC 7519) of
// a minute, which ES256 signs with a key that all replicas derive from their secret.
//
//	caller.go  the caller, and the claims about it
//	key.go     the keys, and the JWK Set that servers verify with
//	signer.go  the signer, which follows the secret
package assertion
