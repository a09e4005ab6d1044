// Package resolve implements the filter that resolves the fleet of a call by metadata, message, authority or service,
// which must agree. router/resolve.go has the rules. A fleet that is not granted to the caller's tenant is treated as
// unknown.
//
// It reads the capability from the peeked fields.
package resolve
