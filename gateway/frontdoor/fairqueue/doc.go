// Package fairqueue admits requests one after the other, and tenants in turn.
//
// Goroutines handle JSON, gRPC-Web and Connect requests, and translated calls. Go runs goroutines in the order in
// which they became runnable, whatever their tenant. If a tenant sends hundreds of requests at once, the requests of
// all others wait behind them. A request that waits in the queue costs next to nothing, so the tenant that sends too
// much waits for itself.
package fairqueue
