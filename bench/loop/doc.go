// Package loop is an event loop over sockets for the load generator and the
// backend: one goroutine, one epoll, one read per readiness, one write per
// connection and wake-up. Both share a core, so what they burn is measured against
// every proxy alike; what matters is that it is little and even.
package loop
