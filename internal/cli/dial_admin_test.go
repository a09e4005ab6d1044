package cli

import "google.golang.org/grpc"

// dialAdmin returns a client of the admin API at an address.
func dialAdmin(addr string) (*grpc.ClientConn, error) {
	p := addAdmin(commandNamed(commandTree(stdio{}), "version"))
	p.addr = addr
	return p.dial("")
}
