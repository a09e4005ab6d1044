// Package backend is a capability that costs next to nothing: it answers the doc
// dialect's calls from prepared bytes, as the request's first field tells it to
// (see h2.Work). It speaks HTTP/2 cleartext to any proxy or client.
package backend
