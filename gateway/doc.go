// Package gateway is the way of a call, from the bytes of a client to the bytes of
// a backend and back:
//
//	        accept ─► identify ─► decide ─► route ─► forward ─► record
//	         relay     tenant     policy    router    relay     observe
//	                                         │
//	                                       health (a snapshot; never asked over the network by a call)
//
//	chain.go     that line, as lists of filters, one for each kind of call; the only place that knows their order
//	filter       what filters are written against: Filter, Call
//	driver.go    takes calls along their lists
//	filters.go   binds each filter to its state of a call
//	handler.go   tells the driver what the relay says
//	outcome.go   what the end of a call says of its backend
//	call.go      a call while it passes: what filters share, and the state of each
//	crossing.go  a call that the translator brings back is still one call
//	keeping.go   a call with an idempotency key goes through the keeper of answers
//	gateway.go   puts relay, front doors and in-process services together; runs and drains them
//	status.go    the only table from refusals to gRPC codes and HTTP statuses
//	admin.go     the operators' port
//
// It decides nothing itself: the deciders behind its interfaces do, from memory. The
// front doors (rest, dialect) are reached through the relay like any backend, and
// come back through it as clients, so that no rule exists twice.
package gateway
