package cli

import "google.golang.org/grpc"

// dialAdmin returns a client of the admin API at an address.
func dialAdmin(addr, agent string) (*grpc.ClientConn, error) {
	return (&adminAccess{addr: addr}).dial(agent)
}
