package connect

import (
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/capgate/capgate/internal/call"
)

// served holds the packages of the gateway's services, and of the protocols of its backends. Libraries link further
// schemas into the process, which no backend has.
//
//nolint:gochecknoglobals // a constant
var served = []protoreflect.FullName{"capgate.v1", "grpc.health.v1", "grpc.reflection.v1", "grpc.reflection.v1alpha",
	"openparallax.v1", "selu.capability", "selu.capability.v1"}

// schemaOf returns the schema of a method; nil means unknown.
func schemaOf(service, method string) protoreflect.MethodDescriptor {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil || !slices.Contains(served, d.ParentFile().Package()) {
		return nil
	}
	s, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil
	}
	return s.Methods().ByName(protoreflect.Name(method))
}

// checkSchema rejects JSON for a method without a schema.
func (t *target) checkSchema() error {
	if t.json && t.schema == nil {
		return refused("JSON_UNSUPPORTED", call.Unimplemented,
			"the gateway has no schema of this method, so it only accepts protobuf messages")
	}
	return nil
}
