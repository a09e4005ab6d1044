// Package gateway implements the path of a call, from the bytes of a client to the bytes of a backend and back:
//
//	accept ─► authenticate ─► resolve ─► authorize ─► pick ─► forward ─► access log
//	 relay       tenant        router     policy     router    relay      telemetry
//
//	chain.go         this path, as lists of filters, one for each kind of call, and the state that the filters keep of
//	                 a call; the only place that determines their order
//	list.go          a list and its rows, each bound to its filter's state of a call
//	driver.go        takes calls from the relay along the lists; it alone rejects, answers and assigns upstreams
//	attempt.go       further attempts of calls that did not start
//	served.go        calls that code in the process serves and continues, and the progress of calls
//	call.go          the pooled per-call struct: the shared part, the place in the list, and the states of filters;
//	                 its opening is what the call does not need after the start of the response
//	handler.go       creates what the filters share, and explains failures of the relay
//	config.go        the configuration of a Gateway, in groups
//	gateway.go       connects relay, front doors and in-process services; runs and drains them
//	admin.go         the admin API's port
//
// gateway/status turns rejections into statuses of gRPC and HTTP. The filters are folders in gateway/filter, and in
// gateway/engine/filter for engines; engines.go makes the guard.
//
// frontdoors.go makes the front doors for HTTP; gateway/frontdoor has their lists.
//
// A call ends with its last stream. Code in the process (idempotency, translate, guard) may serve the stream of a call
// and continue the call on another one, which has its own part of the list:
//
//	client ──stream 1──► filters a b ──► served by the filter b
//	                                       └──stream 2──► filters c d ──attempt──► backend
//
//	stream 2 ends   leave        its result, and the one at the backend
//	                Done of d c  the filters of the attempt
//	                continued    b is notified; the call is at stream 1 again
//	stream 1 ends   leave        both results as one: code and bytes of stream 1, times of stream 2
//	                Done of b a  the call has ended
//
// If stream 1 ends first, as its client has left, its result waits for the end of stream 2, and both are ended then.
// Code that does not continue the call ends stream 1 alone.
//
// A client learns from call.Progress whether it may repeat a call. The driver owns it: Sent from the first Forward on,
// NotSent again after an attempt that provably did not start, unless an earlier one may have run. If the relay itself
// ends a stream (Explain), code that serves it may have done more, see filter.Served.Progress.
//
// Three fields complement it. opening.unsent is the error for which the last attempt did not start; the Done of its
// filters receives it. walk.settled is true once the client has the answer NotSent: the call must not be sent to a
// backend then. filter.Served.Continued is true once code that serves a call has continued it: its refusal says Sent,
// because a backend may have received the call.
//
// In other files: shares.go divides the memory among tenants and addresses, directory.go has the connections to
// backends, internalcall.go the calls that the gateway itself makes, healthcheck.go the answers of Healthcheck,
// signed.go the existence of files for signed URLs.
//
// The package decides nothing itself: the deciders behind the filters' interfaces do, from memory.
package gateway
