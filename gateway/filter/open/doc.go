// Package open is the filter of calls that need no credential, such as those of load balancers: it bounds how many
// there are, of the gateway, of a network and of a connection. A credential that such a call shows is dropped, not
// checked.
package open
