// Package jwks is the door that publishes the keys of the gateway's assertions, with which servers verify them. The
// keys are public, so that requests need no credential.
package jwks
