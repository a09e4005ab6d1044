// Command schemas writes kubernetes.json beside it: the schemas that the tests check
// rendered Kubernetes objects against, cut out of
//
//	k8s.io/kubernetes                                 api/openapi-spec/swagger.json
//	github.com/prometheus-operator/prometheus-operator  the definition of ServiceMonitor
//
// which it gets as Go modules:
//
//	go run ./deploy/schemas
//
// Descriptions are left out, and a field that no schema names is wrong.
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

	"go.yaml.in/yaml/v3"
)

const (
	kubernetes = "k8s.io/kubernetes@v1.34.1"
	operator   = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
)

// kinds are those that are deployed, by the names that definitions have.
var kinds = map[string]string{
	"v1 ConfigMap":                            "io.k8s.api.core.v1.ConfigMap",
	"v1 Service":                              "io.k8s.api.core.v1.Service",
	"v1 ServiceAccount":                       "io.k8s.api.core.v1.ServiceAccount",
	"apps/v1 Deployment":                      "io.k8s.api.apps.v1.Deployment",
	"policy/v1 PodDisruptionBudget":           "io.k8s.api.policy.v1.PodDisruptionBudget",
	"networking.k8s.io/v1 NetworkPolicy":      "io.k8s.api.networking.v1.NetworkPolicy",
	"autoscaling/v2 HorizontalPodAutoscaler":  "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
	"monitoring.coreos.com/v1 ServiceMonitor": "ServiceMonitor",
}

type object = map[string]any

func main() {
	if err := write(); err != nil {
		fmt.Fprintf(os.Stderr, "schemas: %v\n", err)
		os.Exit(1)
	}
}

func write() error {
	all, err := definitions()
	if err != nil {
		return err
	}
	kept := object{}
	for _, name := range kinds {
		keep(all, name, kept)
	}
	data, err := encode(kept)
	if err != nil {
		return err
	}
	return os.WriteFile("deploy/schemas/kubernetes.json", data, 0o644)
}

// definitions are all that there are.
func definitions() (object, error) {
	var swagger struct{ Definitions object }
	if err := read(kubernetes, "api/openapi-spec/swagger.json", &swagger); err != nil {
		return nil, err
	}
	all := swagger.Definitions
	// What these two say of themselves is less than they are.
	all["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] = object{"type": []any{"integer", "string"}}
	all["io.k8s.apimachinery.pkg.api.resource.Quantity"] = object{"type": []any{"number", "string"}}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema object `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := read(operator, "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml", &crd); err != nil {
		return nil, err
	}
	monitor := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	monitor["properties"].(object)["metadata"] = object{"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
	all["ServiceMonitor"] = monitor
	return all, nil
}

// read gets a file of a module. YAML is JSON, too.
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

// keep copies a definition, and those that it refers to.
func keep(all object, name string, kept object) {
	if kept[name] != nil {
		return
	}
	kept[name] = true // on the way
	kept[name] = strict(all[name], func(ref string) { keep(all, strings.TrimPrefix(ref, "#/definitions/"), kept) })
}

// strict is a schema without what only people read, that allows no field it does not name.
func strict(schema any, refers func(string)) any {
	switch s := schema.(type) {
	case object:
		out := object{}
		for key, value := range s {
			// A field may have such a name, too: its schema is an object.
			if _, deeper := value.(object); !deeper && (key == "description" || key == "format" || strings.HasPrefix(key, "x-kubernetes")) {
				continue
			}
			if ref, ok := value.(string); ok && key == "$ref" {
				refers(ref)
			}
			out[key] = strict(value, refers)
		}
		if _, fields := s["properties"].(object); fields && s["additionalProperties"] == nil {
			out["additionalProperties"] = false
		}
		return out
	case []any:
		for i := range s {
			s[i] = strict(s[i], refers)
		}
	}
	return schema
}

// encode writes one definition a line.
func encode(kept object) ([]byte, error) {
	var text bytes.Buffer
	head, err := json.Marshal(kinds)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&text, "{\"$comment\": \"%s, %s\",\n\"kinds\": %s,\n\"definitions\": {", kubernetes, operator, head)
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
