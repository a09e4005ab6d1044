// Package bodybudget limits the memory of HTTP request bodies that are buffered whole before their calls start.
//
// No tenant holds more than four times the free memory. A single tenant thus gets four fifths of it, and others find
// the rest (Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998). Clients that are not authenticated yet share
// a quarter, of which each address leaves room for others in the same way. A client is authenticated before more is
// read if its body exceeds 64 KiB, or if that quarter is used up. In a gateway without tenants, addresses share the
// memory of one tenant.
package bodybudget
