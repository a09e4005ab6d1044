package deploy

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/kubereal"
	"github.com/capgate/capgate/internal/testkit/kubetest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestAPIServer: a real API server accepts the chart and the kustomizations. The program finds its backends from within
// a pod, with the chart's roles and without an address in its configuration.
func TestAPIServer(t *testing.T) {
	api := kubereal.StartAt(t, "127.0.0.1:443")
	for _, name := range []string{"tools", "weather", "words", "gateways"} {
		api.Namespace(t, name)
	}
	t.Run("Objects", func(t *testing.T) { serverAccepts(t, api) })
	t.Run("Pod", func(t *testing.T) { servesInAPod(t, api) })
}

// serverAccepts applies each object in a dry run.
func serverAccepts(t *testing.T, api *kubereal.Cluster) {
	invalid := map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "x"},
		"spec": map[string]any{"ports": []any{map[string]any{"port": 99999}}}}
	if err := api.Validate(invalid); err == nil || !strings.Contains(err.Error(), "must be between 1 and 65535") {
		t.Errorf("an invalid Service: %v", err)
	}
	api.DefineResources(t, "../tools/kubernetes/crds")
	route := map[string]any{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
		"metadata": map[string]any{"name": "x"}, "spec": map[string]any{"hostnames": []any{"not a name"}}}
	if err := api.Validate(route); err == nil || !strings.Contains(err.Error(), "spec.hostnames[0]") {
		t.Errorf("an invalid HTTPRoute: %v", err)
	}
	kinds := map[string]int{}
	validate := func(from, text string) {
		all := listObjects(t, text)
		for _, o := range all {
			if namespace, is := field(o, "metadata", "namespace").(string); is {
				api.Namespace(t, namespace)
				api.CreateAccount(t, namespace, "default") // normally created by a controller
			}
			if err := api.Validate(o); err != nil {
				t.Errorf("%s: %v", from, err)
			}
			kinds[fmt.Sprint(o["kind"])]++
		}
		t.Logf("%s: %d objects", from, len(all))
	}
	charts := combinations(t)
	examples, err := filepath.Glob("helm/examples/*.yaml")
	check.Must(t, err)
	for _, values := range append(examples, "helm/capgate/values.yaml") {
		charts[values] = []string{"--values", values}
	}
	for name, args := range charts {
		text, err := tool(t, "helm", append([]string{"template", "capgate", "helm/capgate", "--kube-version", "1.37.2",
			"--namespace", "tools"}, args...)...)
		check.Must(t, err)
		validate(name, text)
	}
	overlays, err := filepath.Glob("kustomize/overlays/*")
	check.Must(t, err)
	for _, dir := range append(overlays, "kustomize/base") {
		text, err := tool(t, "kustomize", "build", dir)
		check.Must(t, err)
		validate(dir, text)
	}
	for _, kind := range []string{"HTTPRoute", "GRPCRoute", "ServiceMonitor", "PrometheusRule", "ScaledObject",
		"Certificate"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s was validated", kind)
		}
	}
}

// podValues are values of the chart with a fleet of each kind.
const podValues = `
config:
  operators: {}
  kubernetes: {watch: {namespaces: [tools], capabilities: ["gen-*"], manifests: [texts], policy: allow}}
  fleets:
    - {capability: weather, policy: allow, kubernetes: {namespace: weather, service: weather}}
    - {capability: words, policy: allow, kubernetes: {namespace: words, selector: "app=words"}}
`

// servesInAPod runs the program as the chart's Deployment does, in a root with only the files of a pod.
func servesInAPod(t *testing.T, api *kubereal.Cluster) {
	values := filepath.Join(t.TempDir(), "values.yaml")
	check.Must(t, os.WriteFile(values, []byte(podValues), 0o600))
	text, err := tool(t, "helm", "template", "capgate", "helm/capgate", "--kube-version", "1.37.2",
		"--namespace", "gateways", "--values", values)
	check.Must(t, err)
	all := parseObjects(t, text)
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		check.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("etc/hosts", "127.0.0.1 kubernetes.default.svc\n")
	write("etc/capgate/config/capgate.yaml", field(all["ConfigMap capgate"], "data", "capgate.yaml").(string))
	program, err := os.ReadFile(capgate)
	check.Must(t, err)
	write("capgate", string(program))
	check.Must(t, os.Chmod(filepath.Join(root, "capgate"), 0o755))
	check.Must(t, os.MkdirAll(filepath.Join(root, "tmp"), 0o777))
	account := filepath.Join(root, "var/run/secrets/kubernetes.io/serviceaccount")
	check.Must(t, os.MkdirAll(account, 0o755))
	var roles []map[string]any
	for _, o := range listObjects(t, text) {
		if kind := fmt.Sprint(o["kind"]); kind == "ServiceAccount" || strings.Contains(kind, "Role") {
			roles = append(roles, o)
		}
	}
	api.Apply(t, roles...)
	api.Mount(t, account, "gateways", "capgate")
	args := []string{}
	for _, arg := range field(all["Deployment capgate"], "spec", "template", "spec", "containers", 0, "args").([]any) {
		args = append(args, arg.(string))
	}
	gateway := startIn(t, root, "65532:65532", nil, "/capgate", args...)

	put := func(namespace, service, addr string, labels ...string) {
		api.Put(kubetest.EndpointSlices, namespace, service+"-1", kubetest.WithLabels(
			kubetest.Slice(service, 50051, kubetest.Endpoint{Addr: addr, Pod: service}), labels...))
		ln, err := net.Listen("tcp", addr+":50051")
		check.Must(t, err)
		server := grpc.NewServer()
		docpb.RegisterCapabilityServer(server, gatewaytest.NewCapability(service))
		done := make(chan error, 1)
		go func() { done <- server.Serve(ln) }()
		check.Cleanup(t, func() {
			server.Stop()
			check.Must(t, check.Received(t, done, "the end of a backend"))
		})
	}
	put("weather", "weather", "10.64.2.1")
	put("words", "words-canary", "10.64.2.2", "app=words")
	put("tools", "gen", "10.64.2.3")
	api.Put(kubetest.Services, "tools", "gen", kubereal.Object{"apiVersion": "v1", "kind": "Service",
		"metadata": kubereal.Object{"annotations": kubereal.Object{"capgate.dev/capability": "gen-images",
			"capgate.dev/manifest": "texts/gen"}},
		"spec": kubereal.Object{"clusterIP": "None", "ports": []any{kubereal.Object{"name": "grpc", "port": 50051,
			"protocol": "TCP"}}}})
	api.Put(kubetest.ConfigMaps, "tools", "texts", kubetest.ConfigMap("gen", "id: gen-images\nimage: i\n"))
	gateway.wait(t, `"msg":"serving"`)
	conn, err := clienttest.NewConn("passthrough:///127.0.0.1:8080",
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	for _, capability := range []string{"weather", "words", "gen-images"} {
		check.Succeeds(t, "a call of "+capability, func() error {
			_, err := docpb.NewCapabilityClient(conn).Invoke(t.Context(), &docpb.InvokeRequest{CapabilityId: capability,
				ToolName: gatewaytest.Echo, ArgsJson: []byte("1")})
			return err
		})
	}
	onlyWhatItNeeds(t, api)
}

// onlyWhatItNeeds checks that the token of the pod may read nothing else.
func onlyWhatItNeeds(t *testing.T, api *kubereal.Cluster) {
	token := api.Token(t, "gateways", "capgate")
	const slicesOf = "/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices"
	const services = "/api/v1/namespaces/%s/services"
	const configMaps = "/api/v1/namespaces/tools/configmaps?fieldSelector=metadata.name%3D"
	for path, want := range map[string]int{
		fmt.Sprintf(slicesOf, "weather"):                200,
		fmt.Sprintf(slicesOf, "words"):                  200,
		fmt.Sprintf(slicesOf, "tools"):                  200,
		fmt.Sprintf(services, "tools"):                  200,
		fmt.Sprintf(services, "weather"):                403,
		fmt.Sprintf(slicesOf, "gateways"):               403,
		fmt.Sprintf(slicesOf, "weather") + "/weather-1": 403,
		"/apis/discovery.k8s.io/v1/endpointslices":      403,
		"/api/v1/namespaces/tools/secrets":              403,
		"/api/v1/namespaces/tools/configmaps":           403,
		configMaps + "texts":                            200,
		configMaps + "others":                           403,
		"/api/v1/namespaces":                            403,
	} {
		code, _, err := api.Get(path, token)
		check.Must(t, err)
		if code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
}
