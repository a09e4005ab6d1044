// Package session has the sessions of people who have signed in: sealed cookies, which any replica can read, and the
// revocations that all replicas share.
//
//	session.go     a session, and its text in a cookie
//	keys.go        the keys that seal cookies: of a file, or one that replicas share
//	manager.go     Manager: issues, opens, lists and ends sessions
//	revocations.go which sessions have ended before their time
//	follow.go      responses that last end with the credential of their request
//	limiter.go     how many attempts to sign in a client has
//
// A session is in its cookie alone. It is encrypted with AES-256-GCM and bound to its kind, so that a cookie of the
// admin port is nothing at the public port. The store has the ids of revoked sessions until these would have ended by
// themselves, and a bounded list of issued sessions for operators, which no request depends on.
//
// The package does not decide who may sign in: package signin does, with the configuration. It re-checks the person
// of a session at each use, so a session is never more than its person.
package session
