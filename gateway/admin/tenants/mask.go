package tenants

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

var (
	settable = []string{"name", "capabilities", "limits", "disabled"}
	// outputOnly lists the fields that clients send back unchanged. They are ignored.
	outputOnly = []string{"id", "etag", "source", "create_time", "update_time", "resource_name", "updated_by"}
)

// applyMask applies a request's changes to is.
func applyMask(is *capgatepb.Tenant, req *capgatepb.UpdateTenantRequest) error {
	to := req.GetTenant()
	paths := req.GetUpdateMask().GetPaths()
	switch {
	case slices.Equal(paths, []string{"*"}):
		paths = settable
	case len(paths) == 0:
		to.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
			paths = append(paths, string(f.Name()))
			return true
		})
	}
	for _, path := range paths {
		first, _, _ := strings.Cut(path, ".")
		switch {
		case slices.Contains(outputOnly, first):
		case !slices.Contains(settable, first) || !set(is, to, strings.Split(path, ".")):
			return invalid("update_mask", path+" is not one of "+strings.Join(settable, ", "))
		}
	}
	return nil
}

// set copies a field of a message to another message. It returns false for an unknown field.
func set(is, to proto.Message, path []string) bool {
	dst, src := is.ProtoReflect(), to.ProtoReflect()
	for i, name := range path {
		f := dst.Descriptor().Fields().ByName(protoreflect.Name(name))
		switch {
		case f == nil:
			return false
		case i == len(path)-1 && src.Has(f):
			dst.Set(f, src.Get(f))
		case i == len(path)-1:
			dst.Clear(f)
		case f.Message() == nil || f.IsList():
			return false
		default:
			dst, src = dst.Mutable(f).Message(), src.Get(f).Message()
		}
	}
	return true
}
