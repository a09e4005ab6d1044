package initfiles

import (
	"fmt"
	"strings"
)

// containerUser is the user id of the image. It owns the gateway's files if root writes them.
const containerUser = 65532

// forCompose builds the files of deploy/compose, without what needs a clone.
func forCompose(c Config) (*builder, error) {
	b := &builder{Config: c, config: "config/capgate.yaml"}
	if err := b.addComposeFile(); err != nil {
		return nil, err
	}
	for _, path := range [][2]string{{"compose/haproxy.cfg", "haproxy.cfg"}, {"redis/compose.acl", "redis/compose.acl"},
		{"prometheus", "prometheus"}, {"grafana", "grafana"}} {
		if err := b.addDeployed(path[0], path[1]); err != nil {
			return nil, err
		}
	}
	config, err := deployed("compose/config/capgate.yaml", "operators: {metrics: open}\n",
		b.operators("  metrics: open\n"))
	if err != nil {
		return nil, err
	}
	b.add(b.config, 0o644, config+b.production("/run/secrets/secret_key", "stdout", "/etc/capgate")+b.hosts())
	b.add("secrets/redis_password", 0o600, newPassword()+"\n")
	b.add("secrets/secret_key", 0o600, newSecret()+"\n")
	if b.TLS {
		if err := b.addCertificate("config/"); err != nil {
			return nil, err
		}
	}
	if b.UID == 0 {
		for i := range b.files {
			if f := &b.files[i]; f.Path == "config/tls.key" || strings.HasPrefix(f.Path, "secrets/") {
				f.Owner = containerUser
			}
		}
	}
	made := quoted(b.Dir)
	b.next = steps(b.buildImage(), "start it:\n     docker compose -f "+made+"/compose.yaml up --wait",
		"call a tool:\n     "+b.call("config/tls.crt"),
		"open the console at http://localhost:8081, and sign in with the key in "+made+"/operator.key")
	return b, nil
}

// addComposeFile adds compose.yaml with an image in place of the clone, and with secrets that its user can read.
func (b *builder) addComposeFile() error {
	const secrets = "    secrets: [redis_password]\n    networks:\n      default:"
	user := fmt.Sprintf("%d:%d", b.UID, b.GID)
	if b.UID == 0 {
		user = fmt.Sprintf("%d:%[1]d", containerUser)
	}
	text, err := deployed("compose/compose.yaml", "  image: capgate\n", fmt.Sprintf("  image: %q\n", b.Image),
		"  pull_policy: build\n", "",
		`"${CAPGATE_USER:-65532:65532}"`, fmt.Sprintf("%q # may read secrets", user),
		secrets, strings.Replace(secrets, "redis_password", "redis_password, secret_key", 1),
		"  redis_password: {file: ./secrets/redis_password}\n",
		"  redis_password: {file: ./secrets/redis_password}\n  secret_key: {file: ./secrets/secret_key}\n",
		"../redis", "./redis", "../prometheus", "./prometheus", "../grafana", "./grafana")
	if err == nil && b.TLS {
		text, err = replaced("compose.yaml", text, "[CMD, /capgate, healthcheck]",
			"[CMD, /capgate, healthcheck, --tls-ca, /etc/capgate/tls.crt]")
	}
	_, text, ok := strings.Cut(text, "\nname: capgate\n")
	before, after, found := strings.Cut(text, "  build: ")
	_, after, _ = strings.Cut(after, "\n")
	if err == nil && (!ok || !found) {
		err = fmt.Errorf("compose.yaml has no name, or no build")
	}
	b.add("compose.yaml", 0o644, "# docker compose up --wait\n#\n# Callers: localhost:8080. Console: localhost:8081. "+
		"Grafana: localhost:3000. Prometheus: localhost:9090.\n# Capabilities share no network with Redis, and the "+
		"admin API does not listen in theirs.\nname: capgate\n"+before+after)
	return err
}
