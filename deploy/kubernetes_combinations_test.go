package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// A level is one setting of an option of the chart, with its values.
type level struct{ name, values string }

const (
	weatherFleet = "config: {fleets: [{capability: weather, policy: allow, backends: ['dns:///weather:50051']}]}"
	route        = "enabled: true, parentRefs: [{name: public, namespace: gateways}], annotations: {a: b}"
)

// chartOptions lists the options of the chart. The first level of each is its default.
var chartOptions = [][]level{
	{
		{"demonstration", ""}, {"fleet", weatherFleet},
		{"discovery", "config: {kubernetes: {watch: {namespaces: ['*']}}, operators: {metrics: open}, " +
			"fleets: [{capability: a, policy: allow, kubernetes: {service: a}}]}"},
	},
	{
		{"embedded", ""}, {"own Redis", "redis: {enabled: true}"},
		{"own Redis in memory", "redis: {enabled: true, persistence: {enabled: false}}\n" +
			"config: {redis: {timeout: 1s}}"},
		{"Redis by secret", "redis: {existingSecret: r}"},
		{"Redis by configuration", "config: {redis: {url: 'redis://r:6379', wait_replicas: 1}}"},
	},
	{
		{"one", ""}, {"three", "replicas: 3"}, {"HPA", "autoscaling: {enabled: true}"},
		{"KEDA", "keda: {enabled: true, authentication: p}"},
	},
	{
		{"cleartext", ""}, {"TLS", "tls: {secret: t}"},
		{"cert-manager", "certificate: {enabled: true, issuerRef: {name: ca, kind: ClusterIssuer}, dnsNames: [a.b]}\n" +
			"config: {tls: {client_ca_file: /etc/capgate/secrets/s/ca}}"},
	},
	{{"no Ingress", ""}, {"Ingress", "ingress: {enabled: true, className: c, hosts: [a.b], tlsSecret: i}"}},
	{{"no HTTPRoute", ""}, {"HTTPRoute", "httpRoute: {hostnames: [b.example.com], " + route + "}"}},
	{{"no GRPCRoute", ""}, {"GRPCRoute", "grpcRoute: {hostnames: ['*.example.com'], " + route + "}"}},
	{
		{"policies", ""}, {"no policies", "networkPolicy: {enabled: false}"},
		{"strict policies", "networkPolicy: {callers: [{podSelector: {}}], operators: [{namespaceSelector: {}}], " +
			"egress: [{ports: [{port: 53}]}], capabilities: {podLabels: {a: b}}}"},
	},
	{
		{"no ServiceMonitor", ""},
		{"ServiceMonitor", "serviceMonitor: {enabled: true, labels: {a: b}, credentials: {secret: s}}"},
	},
	{{"no rules", ""}, {"rules", "prometheusRule: {enabled: true, labels: {release: prometheus}}"}},
	{
		{"no dashboards", ""},
		{"dashboards", "dashboards: {enabled: true, namespace: grafana, annotations: {folder: f}}"},
	},
	{
		{"tests", ""}, {"no tests", "tests: {enabled: false}"},
		{"a call", "tests: {call: {capability: a, tool: b, arguments: {c: 1}}, key: {secret: k}}"},
	},
	{{"secrets", ""}, {"more secrets", "secrets: [s.t]\nsecretFile: {secret: f}\nenv: {A: {secret: a, key: k}}"}},
	{
		{"no extras", ""},
		{"extras", "extraEnv: [{name: B, value: c}]\nextraVolumes: [{name: v, emptyDir: {}}]\n" +
			"extraVolumeMounts: [{name: v, mountPath: /v}]\ncommonLabels: {team: t}\npodLabels: {team: t}\n" +
			"podAnnotations: {a: b}\npriorityClassName: p\ntopologySpread: DoNotSchedule\nnodeSelector: {a: b}\n" +
			"tolerations: [{operator: Exists}]\naffinity: {podAntiAffinity: {}}\nimagePullSecrets: [r]\n" +
			"serviceAccount: {annotations: {a: b}}\ndrain: {preStopSeconds: 5}\nimage: {digest: 'sha256:" +
			someDigest + "'}"},
	},
}

// someDigest is a placeholder for the digest of an image.
const someDigest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// allowed reports whether the chart accepts the levels so far: several replicas need a shared store.
func allowed(row []int) bool {
	return len(row) < 3 || row[1] > 0 || row[2] == 0
}

// pairs returns rows of levels in which each allowed pair of levels of two options occurs.
func pairs(options [][]level) (rows [][]int) {
	type pair struct{ a, x, b, y int }
	left := map[pair]bool{}
	for a := range options {
		for b := a + 1; b < len(options); b++ {
			for x := range options[a] {
				for y := range options[b] {
					if a != 1 || b != 2 || x > 0 || y == 0 {
						left[pair{a, x, b, y}] = true
					}
				}
			}
		}
	}
	for len(left) > 0 {
		row := []int{}
		for b := range options {
			best, most := 0, -1
			for i := range options[b] {
				y := (i + len(rows)) % len(options[b]) // start with a different option in each row
				if !allowed(append(slices.Clone(row), y)) {
					continue
				}
				gain := 0
				for a, x := range row {
					if left[pair{a, x, b, y}] {
						gain++
					}
				}
				if gain > most {
					best, most = y, gain
				}
			}
			row = append(row, best)
		}
		before := len(left)
		for a := range row {
			for b := a + 1; b < len(row); b++ {
				delete(left, pair{a, row[a], b, row[b]})
			}
		}
		if rows = append(rows, row); len(left) == before && len(rows) > 1000 {
			panic(fmt.Sprint("missing pairs: ", left))
		}
	}
	return rows
}

// TestChartInCombinations: the chart renders with each pair of its options' levels. Kubernetes accepts each object,
// pods satisfy the restricted standard, and the gateway accepts the configuration.
func TestChartInCombinations(t *testing.T) {
	t.Parallel()
	validate := schemas(t)
	for name, args := range combinations(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := renderChart(t, args...)
			for name, o := range all {
				if err := validate(o); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				checkRestricted(t, name, o)
			}
			checkPods(t, all)
		})
	}
}

// combinations returns arguments of helm template with each pair of the options' levels, by the names of the levels.
func combinations(t *testing.T) map[string][]string {
	t.Helper()
	rows := pairs(chartOptions)
	t.Logf("%d combinations", len(rows))
	all := map[string][]string{}
	for _, row := range rows {
		var names, args []string
		dir := t.TempDir()
		for option, i := range row {
			l := chartOptions[option][i]
			if l.values == "" {
				continue
			}
			file := filepath.Join(dir, fmt.Sprint(option, ".yaml"))
			check.Must(t, os.WriteFile(file, []byte(l.values), 0o600))
			names, args = append(names, l.name), append(args, "--values", file)
		}
		all[strings.Join(names, ", ")] = args
	}
	return all
}

// checkRestricted checks the pods of an object against the restricted Pod Security Standard.
func checkRestricted(t *testing.T, name string, o map[string]any) {
	t.Helper()
	spec := field(o, "spec", "template", "spec")
	if o["kind"] == "Pod" {
		spec = o["spec"]
	}
	if spec == nil {
		return
	}
	if field(spec, "securityContext", "runAsNonRoot") != true ||
		field(spec, "securityContext", "seccompProfile", "type") != "RuntimeDefault" {
		t.Errorf("%s: securityContext: %v", name, field(spec, "securityContext"))
	}
	init, _ := field(spec, "initContainers").([]any)
	containers, _ := field(spec, "containers").([]any)
	for _, c := range append(init, containers...) {
		context := field(c, "securityContext")
		if field(context, "allowPrivilegeEscalation") != false || field(context, "readOnlyRootFilesystem") != true ||
			fmt.Sprint(field(context, "capabilities")) != "map[drop:[ALL]]" {
			t.Errorf("%s: %v: securityContext: %v", name, field(c, "name"), context)
		}
	}
}
