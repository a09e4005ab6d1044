// Package config describes gRPC services in the configuration: fleets with protocol: grpc, and their field
// grpc_service.
package config

import (
	"github.com/capgate/capgate/gateway/upstream/grpcservice"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/router"
)

// Protocol is the protocol grpc of the file.
func Protocol() *config.Protocol {
	return &config.Protocol{
		Name: grpcservice.Name, Field: "grpc_service",
		New:   func() router.Protocol { return new(grpcservice.Settings) },
		Tools: true,
		Needs: "the list of methods that are tools; write grpc_service: {methods: [package.Service/Method]}",
		Foreign: []string{"dialect", "services", "methods", "artifacts", "artifact_ttl", "manifest",
			"enforce_credentials"},
		Fleet: func(f *config.Fleet, _ func(string) bool) {
			f.Dialect, f.Affinity.SharedArtifacts = call.Doc, true
		},
	}
}
