// Package loop is an event loop over sockets for the load generator and the backend: one goroutine, one epoll, one read
// per readiness, and one write per connection and wake-up. Both share a core. Their own cost is part of every
// measurement, so it must be small and even.
package loop
