package deploy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/examples/selu"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestSeluFiles: the compose file is valid, capabilities and Redis are in separate networks, and the manifests are
// those of the capabilities with another image.
func TestSeluFiles(t *testing.T) {
	t.Parallel()
	file, services := checkCompose(t, "selu/compose.yaml")
	for service, network := range map[string]string{"weather": "capabilities", "words": "capabilities",
		"redis": "store"} {
		if got := list(field(services[service], "networks")); len(got) != 1 || got[0] != network {
			t.Errorf("%s is in the networks %v, want %s", service, got, network)
		}
		if internal := field(file, "networks", network, "internal"); internal != true {
			t.Errorf("the network %s is not internal", network)
		}
	}
	for name, original := range map[string]string{"weather": "weather", "words": "python-live"} {
		want, err := os.ReadFile(filepath.Join("../examples", original, "manifest.yaml"))
		check.Must(t, err)
		got, err := os.ReadFile(filepath.Join("selu/manifests", name+".yaml"))
		check.Must(t, err)
		if changed := regexp.MustCompile(`(?m)^image: .*$`).ReplaceAll(want, []byte("image: capgate-selu")); string(
			changed) != string(got) {
			t.Errorf("selu/manifests/%s.yaml is not examples/%s/manifest.yaml with another image", name, original)
		}
	}
}

// walk follows the steps of docs/systems/selu.md in a copy of deploy, without Docker: the test carries out Docker's
// part.
type walk struct {
	t        *testing.T
	dir      string // of the copy
	network  string // address prefix that no other program uses
	public   string // of the gateway
	admin    string
	gateway  *process
	images   map[string]*image
	did      []string // commands for Docker
	finished bool     // Selu has used the capabilities
}

// TestSeluWalk: following the document results in Selu's capabilities behind a gateway.
func TestSeluWalk(t *testing.T) {
	t.Parallel()
	w := &walk{t: t, dir: t.TempDir(), network: fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(256)),
		images: map[string]*image{}}
	check.Must(t, os.Mkdir(w.dir+"/deploy", 0o755))
	command(t, "cp", "-a", "selu", "redis", w.dir+"/deploy")
	for _, leftover := range []string{"secrets", "image/key", "image/ca.pem"} { // from trying out the example here
		check.Must(t, os.RemoveAll(filepath.Join(w.dir, "deploy/selu", leftover)))
	}
	text, err := os.ReadFile("../docs/systems/selu.md")
	check.Must(t, err)
	for _, block := range regexp.MustCompile("(?ms)^```sh walk\n(.*?)^```$").FindAllSubmatch(text, -1) {
		for line := range strings.Lines(strings.ReplaceAll(string(block[1]), "\\\n", " ")) {
			w.follow(strings.TrimSpace(line))
		}
	}
	want := "up, exec, exec, exec, build capgate-forward, build capgate-selu, logs"
	if got := strings.Join(w.did, ", "); got != want || !w.finished {
		t.Errorf("docker was told: %s; want %s; it has finished: %t", got, want, w.finished)
	}
}

// follow carries out a line of the document.
func (w *walk) follow(line string) {
	w.t.Helper()
	words := strings.Fields(line)
	switch at := slices.IndexFunc(words, func(word string) bool {
		return slices.Contains([]string{"up", "exec", "logs", "build"}, word)
	}); {
	case words[0] != "docker":
		w.shell(line)
	case words[at] == "up":
		w.did = append(w.did, "up")
		w.up()
	case words[at] == "build":
		name := words[slices.Index(words, "-t")+1]
		w.did = append(w.did, "build "+name)
		w.build(name)
	case words[at] == "logs":
		w.did = append(w.did, "logs")
		w.use()
		log := w.gateway.wait(w.t, `"tool":"get_current_weather"`)
		check.Must(w.t, os.WriteFile(w.dir+"/log", []byte(log), 0o600))
		_, rest, _ := strings.Cut(line, "|")
		if out := w.shell("cat log |" + rest); !strings.Contains(out, `"tool":"get_current_weather"`) {
			w.t.Errorf("%s: %s", line, out)
		}
	default: // exec: the container's program is available here
		w.did = append(w.did, "exec")
		_, rest, _ := strings.Cut(line, "gateway /capgate ")
		out := w.shell(capgate + " " + rest)
		if rest == "status" && strings.Count(out, " up ") != 2 {
			w.t.Errorf("%s: %s", line, out)
		}
	}
}

func (w *walk) shell(line string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "sh", "-eu", "-c", line)
	cmd.Dir, cmd.Env = w.dir, append(os.Environ(), "CAPGATE_ADMIN="+w.admin) //nolint:forbidigo // the shell's
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// up starts the services of the compose file.
func (w *walk) up() {
	w.t.Helper()
	selu := w.dir + "/deploy/selu"
	password, err := os.ReadFile(selu + "/secrets/redis_password")
	check.Must(w.t, err)
	acl, err := os.ReadFile(w.dir + "/deploy/redis/compose.acl")
	check.Must(w.t, err)
	users := w.dir + "/users.acl"
	rules := replace(w.t, string(acl), "@PASSWORD@", strings.TrimSpace(string(password)))
	check.Must(w.t, os.WriteFile(users, []byte(rules), 0o600))
	redis := startRedis(w.t, users)
	demo := buildImage(w.t, "compose/weather.Dockerfile", nil)
	weather := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(
		demo.start(w.t, "--listen", "127.0.0.1:0").wait(w.t, "127.0.0.1:"))

	text, err := os.ReadFile(selu + "/config/capgate.yaml")
	check.Must(w.t, err)
	config := replace(w.t, string(text), "/run/secrets", selu+"/secrets", "/etc/capgate-manifests", selu+"/manifests",
		"127.0.0.1:8081", "127.0.0.1:0", "redis:6379", redis, "dns:///weather:50051", weather, "dns:///words:50051",
		startPython(w.t, "python-live"))
	file := w.dir + "/capgate.yaml"
	check.Must(w.t, os.WriteFile(file, []byte(config), 0o600))
	var compose any
	text, err = os.ReadFile(selu + "/compose.yaml")
	check.Must(w.t, err)
	check.Must(w.t, yaml.Unmarshal(text, &compose))
	args := list(field(compose, "services", "gateway", "command"))
	w.public = w.network + "1:8443"
	if os.Geteuid() != 0 { // the names of Docker cannot be used
		w.public = "localhost:0"
	}
	for i, arg := range args {
		switch arg {
		case ":8443":
			args[i] = w.public
		case "/etc/capgate/capgate.yaml":
			args[i] = file
		}
	}
	w.gateway = start(w.t, capgate, args...)
	log := w.gateway.wait(w.t, `"msg":"serving"`)
	w.public, w.admin = attribute(log, "listen"), attribute(log, "admin")
}

// build builds an image of the document.
func (w *walk) build(name string) {
	w.t.Helper()
	if name == "capgate-forward" {
		b := buildImage(w.t, "selu/Dockerfile", nil)
		if files, err := filepath.Glob(b.root + "/*"); err != nil || len(files) != 1 || b.user != "1000:1000" ||
			len(b.command) != 0 {
			w.t.Errorf("the image has %v, the user %s, the arguments %q", files, b.user, b.command)
		}
		w.images[name] = b
		return
	}
	dir := w.dir + "/deploy/selu/image"
	w.images[name] = buildImageOn(w.t, w.images, dir, dir+"/Dockerfile", nil)
}

// container starts the image of a manifest as Selu does, and returns Selu's channel to it.
func (w *walk) container(capability, host string) *selu.Client {
	w.t.Helper()
	var manifest struct{ Image string }
	text, err := os.ReadFile(w.dir + "/deploy/selu/manifests/" + capability + ".yaml")
	check.Must(w.t, err)
	check.Must(w.t, yaml.Unmarshal(text, &manifest))
	b := w.images[manifest.Image]
	// In Docker, each container has the port 50051.
	env := append(slices.Clone(b.env), "SELU_CAPABILITY_ID="+capability, "CAPGATE_LISTEN="+host+":50051")
	var p *process
	if os.Geteuid() == 0 {
		check.Must(w.t, os.MkdirAll(b.root+"/etc", 0o755))
		check.Must(w.t, os.WriteFile(b.root+"/etc/hosts", []byte(w.network+"1 host.docker.internal\n"), 0o644))
		p = startIn(w.t, b.root, b.user, env, b.entrypoint)
	} else {
		for i := range env {
			env[i] = strings.NewReplacer("host.docker.internal:8443",
				strings.Replace(w.public, "127.0.0.1", "localhost", 1), "/etc/capgate", b.root+
					"/etc/capgate").Replace(env[i])
		}
		cmd := exec.CommandContext(w.t.Context(), b.root+b.entrypoint)
		cmd.Env, cmd.SysProcAttr = env, &syscall.SysProcAttr{}
		p = launch(w.t, cmd)
	}
	p.wait(w.t, `"msg":"serving"`)
	client, err := selu.Dial(selu.Container{Capability: capability, Host: host})
	check.Must(w.t, err)
	w.t.Cleanup(func() { _ = client.Close() })
	check.Must(w.t, client.WaitReady(w.t.Context()))
	return client
}

// use uses both capabilities, in the role of Selu.
func (w *walk) use() {
	w.t.Helper()
	weather := w.container("weather", w.network+"2")
	result, err := weather.Invoke(w.t.Context(), selu.Call{Tool: "get_current_weather", Args: `{"location":"Berlin"}`})
	if err != nil || !json.Valid(result) || !strings.Contains(string(result), "Germany") {
		w.t.Errorf("weather: %s %v", result, err)
	}
	words := w.container("words", w.network+"3")
	if tools, err := words.Discover(w.t.Context(), ""); err != nil || len(tools) != 2 {
		w.t.Errorf("words: %v %v", tools, err)
	}
	result, err = words.Invoke(w.t.Context(), selu.Call{Tool: "count_words", Args: `{"text":"ja nein ja"}`})
	if err != nil || !strings.Contains(string(result), `"ja"`) {
		w.t.Errorf("words: %s %v", result, err)
	}
	w.finished = true
}
