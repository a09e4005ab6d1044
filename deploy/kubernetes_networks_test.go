package deploy

import (
	"reflect"
	"slices"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestChartKeepsCapabilitiesApart: the pods of capabilities can reach neither the admin API nor Redis.
func TestChartKeepsCapabilitiesApart(t *testing.T) {
	t.Parallel()
	all := renderChart(t, "--values", "helm/examples/autoscaled.yaml")
	gateways := map[string]any{
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": "tools"}},
		"podSelector": map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/name": "capgate",
			"app.kubernetes.io/instance": "capgate"}},
	}
	for _, test := range []struct {
		policy string
		path   []any
		want   any
	}{
		{"capgate", []any{"ingress", 0, "ports"}, []any{map[string]any{"port": "public"}}},
		{"capgate", []any{"ingress", 1, "ports"}, []any{map[string]any{"port": "admin"}}},
		{"capgate", []any{"ingress", 1, "from"},
			[]any{map[string]any{"namespaceSelector": map[string]any{
				"matchLabels": map[string]any{"kubernetes.io/metadata.name": "monitoring"},
			}}}},
		{"capgate-capabilities", []any{"podSelector", "matchLabels"}, map[string]any{"example.com/capability": "true"}},
		{"capgate-capabilities", []any{"policyTypes"}, []any{"Ingress", "Egress"}},
		{"capgate-capabilities", []any{"ingress"}, []any{map[string]any{"from": []any{gateways}}}},
		{"capgate-capabilities", []any{"egress", 0, "ports"},
			[]any{map[string]any{"port": 53, "protocol": "UDP"}, map[string]any{"port": 53, "protocol": "TCP"}}},
		{"capgate-capabilities", []any{"egress", 1},
			map[string]any{"to": []any{gateways}, "ports": []any{map[string]any{"port": 8080}}}},
		{"capgate-redis", []any{"podSelector", "matchLabels"}, map[string]any{"app": "redis"}},
		{"capgate-redis", []any{"ingress", 0},
			map[string]any{"from": []any{gateways}, "ports": []any{map[string]any{"port": 6379}}}},
		{"capgate-redis", []any{"ingress", 1, "from"},
			[]any{map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": "redis"}}}}},
	} {
		if got := field(all["NetworkPolicy "+test.policy],
			append([]any{"spec"}, test.path...)...); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s, %v: %v, want %v", test.policy, test.path, got, test.want)
		}
	}
	for policy, want := range map[string]struct {
		way   string
		rules int
	}{"capgate": {"ingress", 2}, "capgate-capabilities": {"egress", 2}, "capgate-redis": {"ingress", 2}} {
		if rules, _ := field(all["NetworkPolicy "+policy], "spec", want.way).([]any); len(rules) != want.rules {
			t.Errorf("%s: %s: %v", policy, want.way, rules)
		}
	}
	policies := renderChart(t, "--set", "networkPolicy.redis.podLabels.app=redis,networkPolicy.enabled=false")
	if policies["NetworkPolicy capgate-redis"] != nil {
		t.Error("there are policies although they are not enabled")
	}
	if ns := field(renderChart(t, "--values", "helm/examples/tenants.yaml")["NetworkPolicy capgate.tools-redis"],
		"metadata", "namespace"); ns != "data" {
		t.Errorf("the policy of Redis in %v", ns)
	}
}

// TestChartTakesSecretsOfRedis: the URL is an environment variable and secret_file is a file, both from existing
// secrets.
func TestChartTakesSecretsOfRedis(t *testing.T) {
	t.Parallel()
	all := renderChart(t, "--values", "helm/examples/autoscaled.yaml")
	pod := field(all["Deployment capgate"], "spec", "template", "spec")
	ref := map[string]any{"name": "CAPGATE_REDIS",
		"valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "capgate-redis", "key": "url"}}}
	if env := field(pod, "containers", 0, "env"); !reflect.DeepEqual(env, []any{ref}) {
		t.Errorf("env: %v", env)
	}
	mounts, _ := field(pod, "containers", 0, "volumeMounts").([]any)
	volumes, _ := field(pod, "volumes").([]any)
	for what, found := range map[string]bool{
		"mount": contains(mounts, map[string]any{"name": "secret-file", "mountPath": "/etc/capgate/secret",
			"readOnly": true}),
		"volume": contains(volumes, map[string]any{"name": "secret-file",
			"secret": map[string]any{"secretName": "capgate-secret", "defaultMode": 0o440,
				"items": []any{map[string]any{"key": "secret.key", "path": "secret.key"}}}}),
	} {
		if !found {
			t.Errorf("there is no %s of the secret: %v, %v", what, mounts, volumes)
		}
	}
	for values, want := range map[string]string{
		"helm/examples/autoscaled.yaml": "/etc/capgate/secret/secret.key",
		"helm/examples/tenants.yaml":    "/etc/capgate/secret/1.key",
	} {
		if got := chartConfig(t, "--values", values)["secret_file"]; got != want {
			t.Errorf("%s: secret_file: %v", values, got)
		}
	}
}

func contains(all []any, want any) bool {
	return slices.ContainsFunc(all, func(v any) bool { return reflect.DeepEqual(v, want) })
}

// chartConfig returns the gateway's configuration in rendered objects.
func chartConfig(t *testing.T, args ...string) (config map[string]any) {
	t.Helper()
	text, _ := field(renderChart(t, args...)["ConfigMap capgate"], "data", "capgate.yaml").(string)
	check.Must(t, yaml.Unmarshal([]byte(text), &config))
	return config
}
