// Package filter contains the filters for calls of OpenParallax engines. gateway/chain.go has their order.
//
//	scope.go     each method has a scope of its own
//	session.go   the session that routes a call: read from its message, or not needed
//	fleet.go     a call's fleet is of engines, and takes its method
//	deadline.go  some methods stream, and some go on without an end
//
// The filters decide from memory and are stateless: a call's path identifies its method. The Guard in gateway/engine
// handles whole messages.
package filter
