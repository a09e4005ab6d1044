// Package people lets people use the admin port with a browser: their sessions are one more way to authenticate, beside
// keys, tokens and certificates.
//
//	people.go   who may have a session at the admin port, and which operator it is at each use
//	routes.go   the pages of the sign-in, and GET /v1/me, GET /v1/sessions, POST /v1/sessions:revoke
//
// Package signin has the way to a session. The roles of people come from the configuration at each use, so a reload
// that takes them away ends what their sessions may do.
package people
