// Package filter is the filters that only calls of OpenParallax engines pass. gateway/chain.go has their order.
//
//	scope.go     each method has a scope of its own
//	session.go   the session that routes a call: read from its message, or not needed
//	fleet.go     a call's fleet is of engines, and takes its method
//	deadline.go  some methods stream, and some go on without an end
//
// They answer from memory and have no state: a call's path says which method it is of. What is to be seen of whole
// messages is the Guard's, in gateway/engine.
package filter
