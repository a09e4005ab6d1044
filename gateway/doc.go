// Package gateway is the way of a call, from the bytes of a client to the bytes of a backend and back:
//
//	accept ─► authenticate ─► resolve ─► authorize ─► pick ─► forward ─► access log
//	 relay       tenant        router     policy     router    relay      telemetry
//
//	chain.go     that line, as lists of filters, one for each kind of call; the only place that knows their order
//	filters.go   binds each filter to its state of a call
//	driver.go    takes calls along their lists; it alone rejects, answers and hands out upstreams
//	call.go      a call while it passes: what filters share, and the state of each
//	handler.go   makes the filters, and tells the driver what the relay says
//	gateway.go   puts relay, front doors and in-process services together; runs and drains them
//	status.go    the only table from refusals to gRPC codes and HTTP statuses
//	admin.go     the operators' port
//
// The filters are folders of gateway/filter, named as in chain.go: overload, bandwidth, peek, resolve, scope, audit,
// ratelimit, authorize, affinity, pick, warm, protocol, retry, and checks for those without state. These are still files
// here: accesslog, trace, authenticate (with callers and claim), open, forward.
//
// A call that a server inside the process brings back, as the translator does, passes a second list: crossing.go,
// and ends.go. A call with an idempotency key goes through keeping.go.
//
// The front doors authenticate a request once (visit.go), hand what they found out to its calls (arrival.go), and make
// these by local streams of the relay (localgrpc). So no rule exists twice.
//
// The package decides nothing itself: the deciders behind the filters' interfaces do, from memory.
package gateway
