// Package certtest has an authority that signs certificates of servers and clients, for tests.
package certtest
