// Package resolve is the filter that finds the fleet of a call: by metadata, message, authority or service, which must
// agree. router/resolve.go has the rules. A fleet that the caller's tenant is not granted does not exist for the call.
//
// It picks no backend, and reads no message: the peeked fields have the capability.
package resolve
