// Package open implements the filter for calls that need no credential, such as those of load balancers. It limits
// their number per gateway, network and connection. It removes the credential of such a call unchecked.
package open
