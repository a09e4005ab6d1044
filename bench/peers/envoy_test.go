package peers

import (
	"net/netip"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/capgate/capgate/internal/testkit/check"
)

func TestDescriptorsAreWholeAndHaveTheRoute(t *testing.T) {
	t.Parallel()
	b, err := capabilityDescriptors()
	check.Must(t, err)
	var set descriptorpb.FileDescriptorSet
	check.Must(t, proto.Unmarshal(b, &set))
	files, err := protodesc.NewFiles(&set)
	check.Must(t, err)
	d, err := files.FindDescriptorByName("selu.capability.Capability.Invoke")
	check.Must(t, err)
	rule, _ := proto.GetExtension(d.(protoreflect.MethodDescriptor).Options(),
		annotations.E_Http).(*annotations.HttpRule)
	if rule.GetPost() != InvokePath || rule.GetBody() != "*" {
		t.Errorf("the route is %v", rule)
	}
}

func TestConfigurationsOfEnvoy(t *testing.T) {
	t.Parallel()
	env := Env{Backend: netip.MustParseAddrPort("127.0.0.1:50051")}
	for _, s := range []Spec{Envoy("envoy"), EnvoyTranscoder("envoy")} {
		for range 2 { // a spec may be started more than once
			dir := t.TempDir()
			c, err := s.build(env, dir, netip.MustParseAddrPort("127.0.0.1:8080"))
			check.Must(t, err)
			config := c.files["envoy.yaml"]
			var tree map[string]any
			if err := yaml.Unmarshal([]byte(config), &tree); err != nil || strings.Contains(config, "%!") {
				t.Errorf("%s: %v in\n%s", s.Name, err, config)
			}
			if transcodes := strings.Contains(config, dir+"/capability.pb"); transcodes != (s.Name == "envoy-json") ||
				transcodes != (c.files["capability.pb"] != "") {
				t.Errorf("%s has descriptors: %v", s.Name, transcodes)
			}
		}
	}
}
