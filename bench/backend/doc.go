// Package backend is a capability with minimal cost: it answers calls of the doc dialect from prepared bytes. The
// request's first field selects the response (see h2.Work). It speaks cleartext HTTP/2 to any proxy or client.
package backend
