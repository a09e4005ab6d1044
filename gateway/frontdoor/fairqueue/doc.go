// Package fairqueue lets one after the other begin, and tenants in turn.
//
// Requests by JSON, gRPC-Web and Connect, and calls that are translated, are dealt with by goroutines,
// and Go lets those run in the order in which they could, whosever they are: when a tenant sends hundreds
// at once, all that others send waits behind them. What has not passed the turnstile costs next to
// nothing, so what waits is the tenant's that sends too much.
package fairqueue
