package initfiles

import (
	"fmt"
	"strings"
)

// packaged is the path of the program that a package installs, and own that of any other.
const (
	packaged = "/usr/bin/capgate"
	own      = "/usr/local/bin/capgate"
)

// environment is the file of the unit's environment.
const environment = `# Variables of capgate.service, such as CAPGATE_REDIS. They take precedence over capgate.yaml.
# CAPGATE_LOG_LEVEL=debug
`

// forSystemd builds the unit of deploy/systemd with its configuration and environment, below etc.
func forSystemd(c Config) (*builder, error) {
	const dir = "/etc/capgate"
	b := &builder{Config: c, config: "etc/capgate/capgate.yaml"}
	program := own
	install := fmt.Sprintf("     sudo install -m 755 %s %s\n", quoted(c.Program), own)
	if strings.Contains(c.Program, "/go-build") {
		install = "     make build && sudo install -m 755 bin/capgate " + own +
			" # in a clone: the program of go run is temporary\n"
	}
	if c.Program == packaged || c.Program == own {
		program, install = c.Program, ""
	}
	unit, err := deployed("systemd/capgate.service", own, program)
	if err != nil {
		return nil, err
	}
	if program != packaged { // whose package has the unit
		b.add("etc/systemd/system/capgate.service", 0o644, unit)
	}
	b.add("etc/capgate/environment", 0o640, environment)
	b.add("etc/capgate/secrets/secret.key", 0o600, newSecret()+"\n")
	text := Example
	if c.Redis != "" {
		if text, err = b.withRedis(text, dir); err != nil {
			return nil, err
		}
	}
	b.add(b.config, 0o644, text+"\n"+b.operators("")+b.production(dir+"/secrets/secret.key",
		"/var/log/capgate/audit.log", dir)+b.hosts())
	if b.TLS {
		if err := b.addCertificate("etc/capgate/"); err != nil {
			return nil, err
		}
	}
	made := quoted(b.Dir)
	b.next = "  1. install the files. The group capgate-config may read them, and only root may change them. If " +
		"there are\n     secrets of a gateway, nothing is copied; other files are kept as capgate.yaml.~1~ and " +
		"so on:\n     sudo groupadd --system --force capgate-config\n" + install +
		"     sudo test ! -e /etc/capgate/secrets && sudo cp -r --backup=numbered " + made + "/etc/. /etc/\n" +
		"     sudo chown -R root:capgate-config /etc/capgate && sudo chmod -R u=rwX,g=rX,o= /etc/capgate\n" +
		"  2. start the gateway:\n     sudo systemctl daemon-reload && sudo systemctl enable --now capgate\n" +
		"  3. start a capability, in another terminal:\n     capgate demo --weather 127.0.0.1:50051\n" +
		"  4. call a tool:\n     " + b.call("etc/capgate/tls.crt") + "\n" +
		"  5. show the fleets:\n     capgate status --key-file " + made + "/operator.key\n"
	return b, nil
}

// withRedis puts a Redis into a configuration, and adds a password with the user that Redis needs.
func (b *builder) withRedis(text, dir string) (string, error) {
	before, after, ok := strings.Cut(text, "redis: embedded")
	if !ok {
		return "", fmt.Errorf("the example has no redis: embedded")
	}
	_, after, _ = strings.Cut(after, "\n")
	password := newPassword()
	users, err := deployed("redis/compose.acl", "@PASSWORD@", password)
	b.add("redis-users.acl", 0o600, users)
	b.add("etc/capgate/secrets/redis_password", 0o600, password+"\n")
	b.undecided = append(b.undecided, "redis: its user capgate with the new password is in redis-users.acl; start "+
		"Redis with --aclfile, or use the line with ACL SETUSER")
	return fmt.Sprintf("%sredis: {url: %q, password_file: %s/secrets/redis_password}\n%s", before, b.Redis, dir, after),
		err
}
