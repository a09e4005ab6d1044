// Package open is the filter of calls that need no credential, such as those of load balancers. It limits their number
// per gateway, network and connection. A credential of such a call is removed without a check.
package open
