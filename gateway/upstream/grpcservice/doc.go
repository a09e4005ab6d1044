// Package grpcservice lets any gRPC service be the backend of a fleet: it stands for each backend as a capability in
// the process, whose tools are methods of the service.
//
//	relay ─► Services.Serve ─► backend ─► definitions: tool ─► method, schema
//	                              │
//	                              └─► grpc-go ─► the service
//
// Definitions come from a descriptor file, or from the backend's server reflection. They decide which bytes a call may
// have: arguments are checked against the schema that agents see, and only then become a message. What a backend sends
// is bounded before it is decoded. The package decides nothing about calls: they have passed the filters when they come
// here.
package grpcservice
