// Package signin signs people in with a browser, at the admin port and at the public port's /inbox: at an OpenID
// Connect issuer, by the authorization code flow with PKCE, or with an API key.
//
//	GET  {mount}/signin?next=/path       a page with a button for each issuer, and a form for a key
//	GET  {mount}/signin/oidc/{issuer}    sends the browser to the issuer; a cookie remembers state, nonce and verifier
//	GET  {mount}/signin/callback         the issuer sends it back: the ID token is verified, a session begins
//	POST {mount}/signin/key              the same with a key
//	POST {mount}/signout                 ends the session, at all replicas
//	GET  /cli, POST /cli, POST /cli/…    let a program of the person in, at the admin port
//
//	signin.go   Config, Handler, and its routes
//	oidc.go     the way to the issuer and back
//	key.go      keys, the start token, and the end of a session
//	program.go  programs of a person, as capgate login
//	session.go  whose session a request has, and whether it may have effects
//	cookie.go   cookies, and what they need of a connection
//	next.go     which paths a sign-in may lead to
//	page.go     the pages: HTML without script
//	api.go      the person of a request, and lists of sessions, as JSON
//
// The package decides neither who a person is (package token) nor what a person may do: People does, at the start of a
// session and at each use.
package signin
