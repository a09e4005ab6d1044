package health

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"google.golang.org/grpc"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/capgate/capgate/internal/lib/sniff"
)

// capabilityServices are those of the dialects, by the paths of their health calls.
//
//nolint:gochecknoglobals // a table
var capabilityServices = [...]string{serviceOf(docPath), serviceOf(livePath), serviceOf(legacyPath)}

func serviceOf(path string) string {
	service, _, _ := strings.Cut(path[1:], "/")
	return service
}

// ServicesOf returns the services of a fleet that routes services, and methods as package.Service/Method.
func ServicesOf(services, methods []string) []string {
	all := slices.Clone(services)
	for _, m := range methods {
		service, _, _ := strings.Cut(m, "/")
		all = append(all, service)
	}
	return all
}

// reflectionPaths are the paths of server reflection, the newest first. Their messages are the same.
var reflectionPaths = [...]string{ //nolint:gochecknoglobals // a table
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
}

// misfit returns why a backend without health calls cannot serve a capability: its server reflection lists no service
// that could. It returns "" if the backend may serve one, or has no reflection. It asks once for each connection.
func (c *client) misfit(ctx context.Context) string {
	if c.listed {
		return c.other
	}
	names, known := c.listServices(ctx)
	if ctx.Err() != nil {
		return ""
	}
	c.listed, c.other = true, ""
	if !known || slices.ContainsFunc(names, c.serves) {
		return ""
	}
	own := slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "grpc.") })
	if len(own) == 0 {
		c.other = "a gRPC server without services"
		return c.other
	}
	slices.Sort(own)
	c.other = fmt.Sprintf("a gRPC server without a capability service: %s is not one; if its methods are tools, "+
		"set protocol: grpc", own[0])
	return c.other
}

// serves reports whether the fleet has calls for a service.
func (c *client) serves(service string) bool {
	return slices.Contains(capabilityServices[:], service) || slices.Contains(c.services, service)
}

// listServices returns the services that reflection lists.
func (c *client) listServices(ctx context.Context) (names []string, known bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, path := range reflectionPaths {
		stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, path)
		if err != nil {
			continue
		}
		_ = stream.SendMsg(&reflectionpb.ServerReflectionRequest{ // RecvMsg has the error
			MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
		var reply reflectionpb.ServerReflectionResponse
		if stream.RecvMsg(&reply) != nil {
			continue
		}
		for _, s := range reply.GetListServicesResponse().GetService() {
			names = append(names, s.GetName())
		}
		return names, reply.GetListServicesResponse() != nil
	}
	return nil, false
}

// protocol returns what a backend speaks with which HTTP/2 could not begin; "": that is not known.
func (c *client) protocol(ctx context.Context) string {
	if c.tls != nil {
		return ""
	}
	switch sniff.Of(ctx, func(ctx context.Context) (net.Conn, error) { return c.dial(ctx, c.addr) }) {
	case sniff.HTTP1:
		return "the server speaks HTTP/1 and not gRPC; for an MCP server set protocol: mcp, and its URL as the backend"
	case sniff.TLS:
		return "the server speaks TLS; set tls for the fleet"
	}
	return ""
}
