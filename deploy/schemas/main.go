// Command schemas writes the schemas for the checks of deployments, into its own folder:
//
//	kubernetes.json  of Kubernetes objects: k8s.io/kubernetes' api/openapi-spec/swagger.json, and
//	                 the custom resources of the table resources. Unknown fields are errors
//	compose.json     of compose files: the schema in github.com/compose-spec/compose-go
//
// It downloads them as Go modules; only the used parts are stored, without descriptions:
//
//	go run ./deploy/schemas
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

const (
	kubernetes = "k8s.io/kubernetes@v1.34.1"
	compose    = "github.com/compose-spec/compose-go/v2@v2.16.2"

	operator = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
	gateways = "sigs.k8s.io/gateway-api@v1.3.0"
	keda     = "github.com/kedacore/keda/v2@v2.17.2"
	certs    = "github.com/cert-manager/cert-manager@v1.18.2"

	operatorFiles = "example/prometheus-operator-crd/monitoring.coreos.com_"
	gatewayFiles  = "config/crd/standard/gateway.networking.k8s.io_"
)

// resources maps the kinds of custom resources to the module files with their definitions.
var resources = map[string]struct{ module, file string }{
	"ServiceMonitor": {operator, operatorFiles + "servicemonitors.yaml"},
	"PrometheusRule": {operator, operatorFiles + "prometheusrules.yaml"},
	"HTTPRoute":      {gateways, gatewayFiles + "httproutes.yaml"},
	"GRPCRoute":      {gateways, gatewayFiles + "grpcroutes.yaml"},
	"ScaledObject":   {keda, "config/crd/bases/keda.sh_scaledobjects.yaml"},
	"Certificate":    {certs, "deploy/crds/crd-certificates.yaml"},
}

// kinds lists the deployed kinds, by the names of their definitions.
var kinds = map[string]string{
	"v1 ConfigMap":                 "io.k8s.api.core.v1.ConfigMap",
	"v1 Pod":                       "io.k8s.api.core.v1.Pod",
	"v1 Secret":                    "io.k8s.api.core.v1.Secret",
	"apps/v1 StatefulSet":          "io.k8s.api.apps.v1.StatefulSet",
	"networking.k8s.io/v1 Ingress": "io.k8s.api.networking.v1.Ingress",
	"monitoring.coreos.com/v1 PrometheusRule": "PrometheusRule",
	"gateway.networking.k8s.io/v1 HTTPRoute":  "HTTPRoute",
	"gateway.networking.k8s.io/v1 GRPCRoute":  "GRPCRoute",
	"keda.sh/v1alpha1 ScaledObject":           "ScaledObject",
	"cert-manager.io/v1 Certificate":          "Certificate",

	"v1 Service":                              "io.k8s.api.core.v1.Service",
	"v1 ServiceAccount":                       "io.k8s.api.core.v1.ServiceAccount",
	"apps/v1 Deployment":                      "io.k8s.api.apps.v1.Deployment",
	"policy/v1 PodDisruptionBudget":           "io.k8s.api.policy.v1.PodDisruptionBudget",
	"networking.k8s.io/v1 NetworkPolicy":      "io.k8s.api.networking.v1.NetworkPolicy",
	"autoscaling/v2 HorizontalPodAutoscaler":  "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
	"monitoring.coreos.com/v1 ServiceMonitor": "ServiceMonitor",

	"rbac.authorization.k8s.io/v1 Role":               "io.k8s.api.rbac.v1.Role",
	"rbac.authorization.k8s.io/v1 RoleBinding":        "io.k8s.api.rbac.v1.RoleBinding",
	"rbac.authorization.k8s.io/v1 ClusterRole":        "io.k8s.api.rbac.v1.ClusterRole",
	"rbac.authorization.k8s.io/v1 ClusterRoleBinding": "io.k8s.api.rbac.v1.ClusterRoleBinding",
}

type object = map[string]any

func main() {
	for file, make := range map[string]func() ([]byte, error){"kubernetes.json": ofKubernetes,
		"compose.json": ofCompose} {
		data, err := make()
		if err == nil {
			err = os.WriteFile(filepath.Join("deploy/schemas", file), data, 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "schemas: %s: %v\n", file, err)
			os.Exit(1)
		}
	}
}

func ofCompose() ([]byte, error) {
	var schema object
	if err := read(compose, "schema/compose-spec.json", &schema); err != nil {
		return nil, err
	}
	walk(schema, bare)
	schema["$comment"] = compose
	data, err := json.Marshal(schema)
	return append(data, '\n'), err
}

func ofKubernetes() ([]byte, error) {
	all, err := definitions()
	if err != nil {
		return nil, err
	}
	kept := object{}
	for _, name := range kinds {
		keep(all, name, kept)
	}
	return encode(kept)
}

// definitions returns all definitions.
func definitions() (object, error) {
	var swagger struct{ Definitions object }
	if err := read(kubernetes, "api/openapi-spec/swagger.json", &swagger); err != nil {
		return nil, err
	}
	all := swagger.Definitions
	// The published definitions of these two are incomplete.
	all["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] = object{"type": []any{"integer", "string"}}
	all["io.k8s.apimachinery.pkg.api.resource.Quantity"] = object{"type": []any{"number", "string"}}
	for kind, from := range resources {
		var err error
		if all[kind], err = custom(from.module, from.file); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
	}
	return all, nil
}

// custom returns the schema of a custom resource.
func custom(module, file string) (object, error) {
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema object `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := read(module, file, &crd); err != nil {
		return nil, err
	}
	resource := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	const meta = "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	resource["properties"].(object)["metadata"] = object{"$ref": meta}
	return resource, nil
}

// read reads a file of a module. YAML includes JSON.
func read(module, file string, into any) error {
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		return fmt.Errorf("%s: %w", module, err)
	}
	var at struct{ Dir string }
	if err := json.Unmarshal(out, &at); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(at.Dir, file))
	if err != nil {
		return err
	}
	return yaml.Unmarshal(text, into)
}

// keep adds a definition and all definitions that it refers to.
func keep(all object, name string, kept object) {
	if kept[name] != nil {
		return
	}
	kept[name] = all[name]
	walk(all[name], func(schema object) {
		bare(schema)
		if _, fields := schema["properties"].(object); fields && schema["additionalProperties"] == nil {
			schema["additionalProperties"] = false
		}
		if ref, ok := schema["$ref"].(string); ok {
			keep(all, strings.TrimPrefix(ref, "#/definitions/"), kept)
		}
	})
}

// bare removes descriptions and Kubernetes' extensions. A field may have the same name as one of these; its value is
// then an object.
func bare(schema object) {
	maps.DeleteFunc(schema, func(key string, value any) bool {
		_, deeper := value.(object)
		return !deeper && (key == "description" || key == "format" || strings.HasPrefix(key, "x-kubernetes"))
	})
}

// walk visits a schema and all schemas in it.
func walk(schema any, show func(object)) {
	switch s := schema.(type) {
	case object:
		show(s)
		for _, inside := range s {
			walk(inside, show)
		}
	case []any:
		for _, inside := range s {
			walk(inside, show)
		}
	}
}

// encode writes one definition per line.
func encode(kept object) ([]byte, error) {
	var text bytes.Buffer
	head, err := json.Marshal(kinds)
	if err != nil {
		return nil, err
	}
	sources := strings.Join([]string{kubernetes, operator, gateways, keda, certs}, ", ")
	fmt.Fprintf(&text, "{\"$comment\": \"%s\",\n\"kinds\": %s,\n\"definitions\": {", sources, head)
	sep := "\n"
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		line, err := json.Marshal(kept[name])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&text, "%s%q: %s", sep, name, line)
		sep = ",\n"
	}
	text.WriteString("\n}}\n")
	return text.Bytes(), nil
}
