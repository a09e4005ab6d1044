// Package session implements sign-in sessions: sealed cookies, which any replica can read, and the revocations that
// all replicas share.
//
//	session.go     a session, and its text in a cookie
//	keys.go        the keys that seal cookies: of a file, or one that replicas share
//	manager.go     Manager: issues, opens, lists and ends sessions
//	revocations.go which sessions have ended before their time
//	follow.go      responses that last end with the credential of their request
//	limiter.go     how many attempts to sign in a client has
//
// A session is in its cookie alone. It is encrypted with AES-256-GCM and bound to its kind, so that a cookie of the
// admin port is invalid at the public port. The store has the ids of revoked sessions until they would have expired,
// and a bounded list of issued sessions for operators. No request depends on that list.
//
// Package signin decides who may sign in, from the configuration. It re-checks the person of a session at each use, so
// a session never has more rights than its person.
package session
