package deploy

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// secretFiles writes the values of a secret into files, as kubelet does.
func secretFiles(t *testing.T, secret map[string]any) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, value := range asMap(secret["data"]) {
		data, err := base64.StdEncoding.DecodeString(fmt.Sprint(value))
		check.Must(t, err)
		check.Must(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	return dir
}

// TestInitForKubernetes: kustomize builds valid objects, and a gateway works with their configuration and secrets, and
// with a Redis that has its secret.
func TestInitForKubernetes(t *testing.T) {
	t.Parallel()
	const image = "registry:5000/gw:1"
	dir, out := initialize(t, "kubernetes", "--tls", "self-signed", "--host", "gw.example", "--image", image)
	text, err := tool(t, "kustomize", "build", dir)
	check.Must(t, err)
	all := parseObjects(t, text)
	checkPods(t, all)
	validate := schemas(t)
	pod := field(all["Deployment capgate"], "spec", "template", "spec")
	name := fmt.Sprint(field(pod, "volumes", 1, "secret", "secretName"))
	gateway, redis := all["Secret "+name], map[string]any{}
	for object, o := range all {
		if err := validate(o); err != nil {
			t.Errorf("%s: %v", object, err)
		}
		if strings.HasPrefix(object, "Secret capgate-redis-") {
			redis = o
		}
	}
	if got := field(all["StatefulSet capgate-redis"], "spec", "template", "spec", "volumes", 0, "secret",
		"secretName"); got != field(redis, "metadata", "name") {
		t.Errorf("Redis has the secret %v", got)
	}
	for _, deployment := range []string{"capgate", "weather"} {
		container := field(all["Deployment "+deployment], "spec", "template", "spec", "containers", 0)
		if got := field(container, "imagePullPolicy"); got != "IfNotPresent" {
			t.Errorf("%s pulls its image %v", deployment, got)
		}
		if got := field(container, "image"); got != image {
			t.Errorf("%s has the image %v", deployment, got)
		}
	}
	if got := fmt.Sprint(field(all["Deployment weather"], "spec", "template", "spec", "containers", 0,
		"args")); got != "[demo --weather :50051]" {
		t.Errorf("the capability runs with %s", got)
	}

	secrets, acl := secretFiles(t, gateway), secretFiles(t, redis)+"/users.acl"
	file := filepath.Join(t.TempDir(), "capgate.yaml")
	config, _ := field(all["ConfigMap capgate"], "data", "capgate.yaml").(string)
	check.Must(t, os.WriteFile(file, []byte(config), 0o600))
	pairs := []string{"/etc/capgate/secrets", secrets}
	got := missing(t, initialized(t, file, pairs...), out)
	if want := []string{"redis.password_file", "redis.wait_replicas", "operators"}; !slices.Equal(got, want) {
		t.Errorf("production lacks %v, want %v", got, want)
	}
	args := append(list(field(pod, "containers", 0, "args")), withOperators)
	for i, arg := range args {
		switch arg {
		case ":8080":
			args[i] = "127.0.0.1:0"
		case "/etc/capgate/config/capgate.yaml":
			args[i] = initialized(t, file, append(pairs, "admin: :8081", "admin: 127.0.0.1:0",
				"capgate-redis:6379", startRedis(t, acl), "dns:///weather:50051", weatherAlone(t))...)
		}
	}
	log := start(t, capgate, args...).wait(t, `"msg":"serving"`)
	worked(t, dir, attribute(log, "admin"), "--tls-ca", dir+"/secrets/tls.crt", "--addr",
		"https://"+attribute(log, "listen"))
}

// TestRedisOfInitIsTheChart: the Redis of capgate init is that of the chart with redis.enabled.
func TestRedisOfInitIsTheChart(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("kustomize/init/redis.yaml")
	check.Must(t, err)
	chart := renderChart(t, "--values", "helm/examples/single.yaml", "--set", "redis.enabled=true")
	for name, got := range parseObjects(t, string(text)) {
		want := chart[name]
		delete(asMap(want["metadata"]), "namespace")
		for _, label := range helmLabels {
			delete(asMap(field(want, "metadata", "labels")), label)
		}
		// With init, the name of the secret changes with the users, which restarts Redis.
		delete(asMap(field(want, "spec", "template", "metadata")), "annotations")
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: init has\n%v\nand the chart\n%v", name, got, want)
		}
	}
}
