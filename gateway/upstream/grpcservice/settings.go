package grpcservice

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/router"
)

// Settings of a fleet of gRPC services.
type Settings struct {
	// Methods that are tools: package.Service/Method, or package.Service/* for all of a service that have no client
	// streaming. No other method can be called.
	Methods []string `yaml:"methods" kind:"method" required:"" unique:"true"`
	// File with the descriptors of the methods, as protoc --include_imports --descriptor_set_out or buf build -o
	// writes it. It is read again when it changes. Default the backends' server reflection.
	DescriptorFile string `yaml:"descriptor_file" kind:"file"`
	// Names of the tools of a method a.v1.Service/Method: Method, Service_Method or a_v1_Service_Method.
	ToolNames ToolNames `yaml:"tool_names" enum:"method,service,package" default:"method"`
	// File with metadata of each call to the services, such as credentials: name: value, one a line. It is read again
	// when it changes.
	HeadersFile string `yaml:"headers_file" kind:"file"`
	// MaxMessage is the size of the largest message of a service, and of all messages together that one result has;
	// default 4 MiB.
	MaxMessage int64 `yaml:"-"`
}

// ToolNames is the rule for the names of tools.
type ToolNames uint8

// Rules.
const (
	ByMethod  ToolNames = iota // GetForecast
	ByService                  // Forecasts_GetForecast
	ByPackage                  // weather_v1_Forecasts_GetForecast
)

// name returns the tool name of a method of a service, which is given with its full name.
func (n ToolNames) name(service, method string) string {
	switch n {
	case ByService:
		return service[strings.LastIndexByte(service, '.')+1:] + "_" + method
	case ByPackage:
		return strings.ReplaceAll(service, ".", "_") + "_" + method
	}
	return method
}

// otherMethod is the rpc.method of OpenTelemetry's conventions for an unknown method.
const otherMethod = "_OTHER"

// Name is the protocol's name in the configuration.
const Name = "grpc"

// Traits implements router.Protocol.
func (*Settings) Traits() router.Traits {
	return router.Traits{Name: Name, Listed: true, Statuses: true}
}

// Request implements router.Protocol.
func (s *Settings) Request(tool string) router.Request { return router.Request{Method: s.method(tool)} }

// method returns the method that a tool calls. A method of a service listed as a whole has the name of its tool. If
// several such services may have it, only their descriptors could resolve it.
func (s *Settings) method(tool string) string {
	if tool == upstream.DiscoveryTool {
		return reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName
	}
	found := ""
	for _, entry := range s.Methods {
		service, method, _ := strings.Cut(entry, "/")
		if method != "*" {
			if s.ToolNames.name(service, method) == tool {
				return entry
			}
			continue
		}
		method, is := strings.CutPrefix(tool, s.ToolNames.name(service, ""))
		switch {
		case !is || method == "":
		case found != "":
			found = otherMethod
		default:
			found = service + "/" + method
		}
	}
	return cmp.Or(found, otherMethod)
}

// ReservedHeader reports whether the protocol, or HTTP, sets a header of calls, so that the configuration must not.
// Binary metadata cannot be configured.
func ReservedHeader(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Host", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "User-Agent":
		return true
	}
	return strings.HasPrefix(name, "grpc-") || strings.HasSuffix(name, "-bin")
}

// Read reads the headers of calls to the services, and the descriptors of their methods. Unchanged descriptors are
// reused.
func Read(f, before *upstream.Fleet, files upstream.Files) error {
	s := settingsOf(f)
	headers, err := files.Headers(s.HeadersFile, ReservedHeader)
	f.Headers = headers
	if wrong := errors.Join(CheckMethods(s.Methods, s.ToolNames)...); wrong != nil {
		return errors.Join(err, wrong)
	}
	if s.DescriptorFile == "" {
		return err
	}
	definitions, wrong := s.read(before, files)
	if definitions != nil {
		f.Content = definitions
		for _, leftOut := range definitions.leftOut {
			f.Warnings = append(f.Warnings, upstream.Said(leftOut.Error(), maxText))
		}
	}
	return errors.Join(err, wrong)
}

// read reads the descriptor file.
func (s *Settings) read(before *upstream.Fleet, files upstream.Files) (*Definitions, error) {
	data, err := files.Read(s.DescriptorFile)
	if err != nil {
		return nil, fmt.Errorf("descriptor_file: %w", err)
	}
	if before != nil && files.Unchanged(s.DescriptorFile) {
		old := settingsOf(before)
		if old.DescriptorFile == s.DescriptorFile && old.ToolNames == s.ToolNames &&
			slices.Equal(old.Methods, s.Methods) {
			return definitionsOf(before), nil
		}
	}
	definitions, err := Parse(data, s.Methods, s.ToolNames)
	if err != nil {
		return nil, files.Wrong(s.DescriptorFile, err)
	}
	return definitions, nil
}

func settingsOf(f *upstream.Fleet) *Settings { return f.Protocol.(*Settings) }

// definitionsOf returns the definitions of a fleet's descriptor file; nil means they come from server reflection.
func definitionsOf(f *upstream.Fleet) *Definitions {
	definitions, _ := f.Content.(*Definitions)
	return definitions
}

// maxMessage returns the maximum size of a service's message, in bytes.
func (s *Settings) maxMessage() int { return cmp.Or(int(s.MaxMessage), 4<<20) }
