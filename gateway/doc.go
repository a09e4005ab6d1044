// Package gateway is the path of a call, from the bytes of a client to the bytes of a backend and back:
//
//	accept ─► authenticate ─► resolve ─► authorize ─► pick ─► forward ─► access log
//	 relay       tenant        router     policy     router    relay      telemetry
//
//	chain.go         this path, as lists of filters, one for each kind of call; the only place that knows their order
//	filters.go       binds each filter to its state of a call
//	driver.go        walks the lists; it alone rejects, answers and assigns upstreams
//	served.go        calls that code in the process serves and continues
//	call.go          the pooled per-call struct: the shared part, and the state of each filter
//	handler.go       makes the filters, and connects them and the driver to the relay
//	config.go        what a Gateway is made of, in groups
//	gateway.go       puts relay, front doors and in-process services together; runs and drains them
//	admin.go         the admin API's port
//
// gateway/status turns rejections into statuses of gRPC and HTTP. The filters are folders in gateway/filter, and in gateway/engine/filter for engines; engines.go makes the guard.
//
// frontdoors.go makes the front doors for HTTP; gateway/frontdoor has their lists.
//
// The rest: shares.go divides the memory among tenants and addresses, directory.go has the connections to backends, internalcall.go the calls that the gateway itself makes,
// healthcheck.go the answers of Healthcheck, signed.go the existence of files for signed URLs.
//
// The package decides nothing itself: the deciders behind the filters' interfaces do, from memory.
package gateway
