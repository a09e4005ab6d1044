// Package people lets people use the admin port with a browser: their sessions are one more way to authenticate,
// beside keys, tokens and certificates.
//
//	people.go     rights to a session at the admin port, and the operator of a session at each use
//	operators.go  the service capgate.v1.Operators: the operator of a request, and the sessions of people
//	routes.go     the pages of the sign-in
//
// Package signin creates sessions. The roles of people come from the configuration at each use, so a reload that
// removes them applies to existing sessions.
package people
