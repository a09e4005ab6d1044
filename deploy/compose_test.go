package deploy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestCompose: the compose file conforms to the compose specification, everything that it names exists, and gateways
// have time to drain.
func TestCompose(t *testing.T) {
	t.Parallel()
	file, services := checkCompose(t, "compose/compose.yaml")
	if grace := field(services["gateway"], "stop_grace_period"); grace != "30s" { // the defaults of drain: 5s and 20s
		t.Errorf("stop_grace_period: %v", grace)
	}
	checkComposed(t, services)
	checkHealthchecks(t, services)
	config, err := os.ReadFile("compose/config/capgate.yaml")
	check.Must(t, err)
	if !strings.Contains(string(config), "from: [172.28.5.10/32]") {
		t.Error("the gateways trust clients other than haproxy")
	}
	for _, fault := range networkFaults(file, string(config)) {
		t.Error(fault)
	}
	for name, keeps := range map[string][2]string{"redis": {"redis:/data", "--dir /data --save \"\" --appendonly yes"},
		"prometheus": {"prometheus:/prometheus", "--storage.tsdb.path=/prometheus"},
		"grafana":    {"grafana:/var/lib/grafana", ""}} {
		command := strings.Join(list(field(services[name], "command")), " ")
		if mounts := list(field(services[name], "volumes")); !strings.Contains(command, keeps[1]) ||
			!slices.Contains(mounts, keeps[0]) {
			t.Errorf("%s loses its data when its container is replaced: %s, %v", name, command, mounts)
		}
	}
	command(t, "haproxy", "-c", "-f", "compose/haproxy.cfg")
}

// networkFaults returns the services that can reach the admin API or the store and should not. Each service must be in
// exactly the networks that it needs, and the admin API listens in only one of them. A service without networks is in
// the default one, which is that of the admin API.
func networkFaults(file any, config string) (faults []string) {
	want := map[string]string{"gateway": "capabilities default store", "weather": "capabilities", "redis": "store",
		"haproxy": "default", "prometheus": "default", "grafana": "default"}
	services := asMap(field(file, "services"))
	if flag := flagOf(services["gateway"], "--admin"); flag != "" {
		faults = append(faults, "check --production does not see the flag --admin "+flag)
	}
	for name, service := range services {
		networks := list(field(service, "networks"))
		if named, is := field(service, "networks").(map[string]any); is {
			networks = slices.Collect(maps.Keys(named))
		}
		if field(service, "networks") == nil {
			networks = []string{"default"}
		}
		slices.Sort(networks)
		if got := strings.Join(networks, " "); got != want[name] {
			faults = append(faults, fmt.Sprintf("%s is in the networks %q, want %q", name, got, want[name]))
		}
	}
	all, _ := field(file, "networks", "default", "ipam", "config").([]any)
	if len(all) != 1 {
		return append(faults, fmt.Sprintf("the default network has %d subnets", len(all)))
	}
	var gateway struct{ Admin string }
	if err := yaml.Unmarshal([]byte(config), &gateway); err != nil {
		faults = append(faults, err.Error())
	}
	admin := gateway.Admin
	subnet, err := netip.ParsePrefix(fmt.Sprint(field(all[0], "subnet")))
	if err != nil || admin != subnet.String()+":8081" {
		faults = append(faults, fmt.Sprintf("the admin API listens at %q, and its network is at %v (%v)", admin, subnet,
			err))
	}
	// Other containers get addresses from the range, so none of them gets haproxy's trusted address.
	others, err := netip.ParsePrefix(fmt.Sprint(field(all[0], "ip_range")))
	own := fmt.Sprint(field(services["haproxy"], "networks", "default", "ipv4_address"))
	if err != nil || own != "172.28.5.10" || others.Contains(netip.MustParseAddr(own)) {
		faults = append(faults, fmt.Sprintf("haproxy has the address %s, and others are in %v (%v)", own, others, err))
	}
	return faults
}

// TestComposeNetworksAreChecked: a change of the compose file that gives others access to the admin API or the store is
// detected.
func TestComposeNetworksAreChecked(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("compose/compose.yaml")
	check.Must(t, err)
	config, err := os.ReadFile("compose/config/capgate.yaml")
	check.Must(t, err)
	both := string(config) + "---\n" + string(text)
	for _, edit := range [][2]string{
		{`admin: "172.28.5.0/24:8081"`, `admin: ":8081"`},
		{`admin: "172.28.5.0/24:8081"`, `admin: "0.0.0.0/0:8081"`},
		{`admin: "172.28.5.0/24:8081"`, ""},
		{`--listen, ":8080"]`, `--listen, ":8080", --admin, ":8081"]`},
		{"{subnet: 172.28.5.0/24,", "{subnet: 172.28.0.0/16,"},
		{" {ipam: {config: [{subnet: 172.28.5.0/24, ip_range: 172.28.5.128/25}]}}", " {}"},
		{", ip_range: 172.28.5.128/25", ", ip_range: 172.28.5.0/25"},
		{", ip_range: 172.28.5.128/25", ""},
		{"ipv4_address: 172.28.5.10", "ipv4_address: 172.28.5.11"},
		{"networks: [capabilities]", "networks: [capabilities, default]"},
		{"networks: [capabilities]", "networks: [capabilities, store]"},
		{"    networks: [capabilities]\n", ""},
		{"networks: [store]", "networks: [store, capabilities]"},
		{"    networks: [store]\n", ""},
		{"      - grafana:/var/lib/grafana\n", "      - grafana:/var/lib/grafana\n    networks: [default, store]\n"},
	} {
		var file any
		config, text, _ := strings.Cut(replace(t, both, edit[0], edit[1]), "---\n")
		check.Must(t, yaml.Unmarshal([]byte(text), &file))
		if len(networkFaults(file, config)) == 0 {
			t.Errorf("the change of %q to %q is not detected", edit[0], edit[1])
		}
	}
}

// flagOf returns the value of a flag in a service's command, or "" if it is missing.
func flagOf(service any, flag string) string {
	command := list(field(service, "command"))
	if i := slices.Index(command, flag); i >= 0 && i+1 < len(command) {
		return command[i+1]
	}
	return ""
}

// checkCompose checks that a compose file conforms to its specification, and that everything that it names exists.
func checkCompose(t *testing.T, name string) (file any, services map[string]any) {
	t.Helper()
	text, err := os.ReadFile(name)
	check.Must(t, err)
	check.Must(t, yaml.Unmarshal(text, &file))
	asJSON, err := json.Marshal(file)
	check.Must(t, err)
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	check.Must(t, err)
	schema, err := jsonschema.NewCompiler().Compile("schemas/compose.json")
	check.Must(t, err)
	if err := schema.Validate(instance); err != nil {
		t.Error(err)
	}
	volumes := asMap(field(file, "volumes"))
	services = asMap(field(file, "services"))
	dir := filepath.Dir(name)
	for name, service := range services {
		for _, mount := range list(field(service, "volumes")) {
			from, _, _ := strings.Cut(mount, ":")
			if _, named := volumes[from]; named {
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, from)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for other := range dependencies(service) {
			if services[other] == nil {
				t.Errorf("%s depends on %s, which does not exist", name, other)
			}
		}
		if context, ok := field(service, "build", "context").(string); ok {
			docker, _ := field(service, "build", "dockerfile").(string)
			if _, err := os.Stat(filepath.Join(dir, context, cmp.Or(docker, "Dockerfile"))); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	return file, services
}

// checkComposed checks the gateways' configuration, and that capabilities share no network with Redis.
func checkComposed(t *testing.T, services map[string]any) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "password")
	check.Must(t, os.WriteFile(secret, []byte("hunter2\n"), 0o600))
	text, err := os.ReadFile("compose/config/capgate.yaml")
	check.Must(t, err)
	config := filepath.Join(t.TempDir(), "capgate.yaml")
	check.Must(t, os.WriteFile(config, []byte(replace(t, string(text), "/run/secrets/redis_password", secret)), 0o600))
	command(t, capgate, "check", "--config", config)
	if got := list(field(services["weather"], "networks")); len(got) != 1 || got[0] != "capabilities" {
		t.Errorf("the capability is in the networks %v", got)
	}
	if got := list(field(services["redis"], "networks")); len(got) != 1 || got[0] != "store" {
		t.Errorf("Redis is in the networks %v", got)
	}
}

func list(v any) (all []string) {
	values, _ := v.([]any)
	for _, value := range values {
		all = append(all, fmt.Sprint(value))
	}
	return all
}

// replace replaces a text, which must exist.
func replace(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("no %q", pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}
