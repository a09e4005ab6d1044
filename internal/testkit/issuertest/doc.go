// Package issuertest runs an OpenID Connect issuer as a process of its own, for tests: discovery
// and keys over TLS, keys that rotate, answers that are wrong, and outages.
//
// The process is the test's own binary, started once more, which needs a TestMain:
//
//	func TestMain(m *testing.M) {
//		issuertest.Main()
//		os.Exit(m.Run())
//	}
//
// It signs whatever it is asked to, so that a test can make any token.
package issuertest
