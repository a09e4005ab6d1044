// Package issuertest runs an OpenID Connect issuer as a separate process for tests: discovery and keys over TLS, key
// rotation, invalid responses, and outages.
//
// The process is the test's own binary, started again, which needs a TestMain:
//
//	func TestMain(m *testing.M) {
//		issuertest.Main()
//		os.Exit(m.Run())
//	}
//
// A browser, or a client of a test, signs in by the authorization code flow with PKCE: the issuer grants each request
// at once, as the person whom the test has set (login.go).
//
// It signs any claims, so that a test can create any token.
package issuertest
