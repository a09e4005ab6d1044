// Package filter contains the filters for calls of OpenParallax engines. gateway/chain.go has their order.
//
//	scope.go     the scope required by each method
//	session.go   the session that routes a call: read from its message, or not needed
//	fleet.go     checks that a call's fleet has engines and supports its method
//	deadline.go  deadlines of methods that stream, and of those without an end
//
// The filters decide from memory and are stateless: a call's path identifies its method. The Guard in gateway/engine
// handles whole messages.
package filter
