// Package grpcservice makes gRPC services usable as backends of a fleet. It serves each backend as a capability in the
// process, whose tools are methods of the service.
//
//	relay ─► Services.Serve ─► backend ─► definitions: tool ─► method, schema
//	                              │
//	                              └─► grpc-go ─► the service
//
// Definitions come from a descriptor file, or from the backend's server reflection. They define the valid calls:
// arguments are checked against the schema that agents see before they become a message. The size of a backend's
// messages is limited before they are decoded. Calls have passed the filters before they reach this package.
package grpcservice
