// Package signin signs people in with a browser, at the admin port and at the public port's /inbox: at an OpenID
// Connect issuer, by the authorization code flow with PKCE, or with an API key.
//
//	GET  {mount}/signin?next=/path       a page with a button for each issuer, and a form for a key
//	GET  {mount}/signin/oidc/{issuer}    redirects to the issuer; a cookie has state, nonce and verifier
//	GET  {mount}/signin/callback         the issuer redirects here: the ID token is verified, a session begins
//	POST {mount}/signin/key              begins a session with a key
//	POST {mount}/signout                 ends the session, at all replicas
//	GET  /cli, POST /cli, POST /cli/…    signs in a program of the person, at the admin port
//
//	signin.go   Config, Handler, and its routes
//	oidc.go     the redirect to the issuer and back
//	key.go      keys, the start token, and the end of a session
//	program.go  programs of a person, such as capgate login
//	session.go  the session of a request, and whether the request may have effects
//	cookie.go   cookies, and the connections that may use them
//	next.go     the paths that a sign-in may redirect to
//	page.go     the pages: HTML without scripts
//	api.go      the person of a request, and lists of sessions, as JSON
//
// The package decides neither who a person is (package token) nor what a person may do: People does, at the start of a
// session and at each use.
package signin
