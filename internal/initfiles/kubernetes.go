package initfiles

import (
	"fmt"
	"strings"
)

// forKubernetes builds deploy/kustomize/init with its base, a configuration and secrets.
func forKubernetes(c Config) (*builder, error) {
	const dir = "/etc/capgate/secrets"
	b := &builder{Config: c, config: "capgate.yaml"}
	for _, path := range [][2]string{{"kustomize/base", "base"}, {"kustomize/init/redis.yaml", "redis.yaml"},
		{"kustomize/init/weather.yaml", "weather.yaml"}} {
		if err := b.addDeployed(path[0], path[1]); err != nil {
			return nil, err
		}
	}
	if err := b.addKustomization(); err != nil {
		return nil, err
	}
	password := newPassword()
	users, err := deployed("redis/compose.acl", "@PASSWORD@", password)
	if err != nil {
		return nil, err
	}
	hosts, adminHosts := "\nhosts:\n- capgate\n", "admin_hosts:\n- capgate-admin\n"
	var names, adminNames []string // of Services, besides those below svc
	if b.Namespace != "" {
		names, adminNames = []string{"capgate." + b.Namespace}, []string{"capgate-admin." + b.Namespace}
	}
	config, err := deployed("kustomize/base/capgate.yaml", "operators: {}\n", b.operators(""), hosts,
		hosts+lines("- %q\n", append(names, b.names()...)), adminHosts, adminHosts+lines("- %q\n", adminNames))
	if err != nil {
		return nil, err
	}
	b.add(b.config, 0o644, config+fmt.Sprintf("redis: {url: \"redis://capgate@capgate-redis:6379\", password_file: "+
		"%s/redis_password}\npolicies: {}\n", dir)+b.production(dir+"/secret.key", "stdout", dir))
	b.add("secrets/users.acl", 0o600, users)
	b.add("secrets/redis_password", 0o600, password+"\n")
	b.add("secrets/secret.key", 0o600, newSecret()+"\n")
	if b.TLS {
		if err := b.addCertificate("secrets/"); err != nil {
			return nil, err
		}
	}
	made := quoted(b.Dir)
	b.next = steps(b.buildImage(),
		"start it:\n     kubectl apply -k "+made+" && kubectl rollout status deployment/capgate",
		"reach it from this machine, in another terminal:\n     kubectl port-forward service/capgate 8080",
		"call a tool:\n     "+b.call("secrets/tls.crt"),
		"open the console at http://localhost:8081, and sign in with the key in "+made+
			"/operator.key:\n     kubectl port-forward service/capgate-admin 8081")
	return b, nil
}

// addKustomization adds kustomization.yaml with the image, and with the certificate.
func (b *builder) addKustomization() error {
	name, tag, field := b.Image, "latest", "newTag"
	if at := strings.LastIndexAny(name, ":/@"); at >= 0 && name[at] == ':' {
		name, tag = name[:at], name[at+1:]
	}
	if repository, ok := strings.CutSuffix(name, "@sha256"); ok {
		name, tag, field = repository, "sha256:"+tag, "digest"
		if at := strings.LastIndexAny(name, ":/"); at >= 0 && name[at] == ':' {
			name = name[:at] // kustomize takes a digest or a tag
		}
	}
	text, err := deployed("kustomize/init/kustomization.yaml", "{name: capgate, newName: capgate, newTag: latest}",
		fmt.Sprintf("{name: capgate, newName: %q, %s: %q}", name, field, tag))
	if err == nil && b.TLS {
		text, err = replaced("kustomization.yaml", text, "files: [secrets/secret.key, secrets/redis_password]",
			"files: [secrets/secret.key, secrets/redis_password, secrets/tls.crt, secrets/tls.key]")
		text += `  - target: {kind: Service, name: ^capgate$}
    patch: |
      - {op: replace, path: /spec/ports/0/appProtocol, value: https}
`
	}
	if b.Namespace != "" && err == nil {
		text, err = replaced("kustomization.yaml", text, "kind: Kustomization\n",
			fmt.Sprintf("kind: Kustomization\nnamespace: %s\n", b.Namespace))
	}
	b.add("kustomization.yaml", 0o644, text)
	return err
}

// lines formats each word.
func lines(format string, words []string) string {
	var text strings.Builder
	for _, word := range words {
		fmt.Fprintf(&text, format, word)
	}
	return text.String()
}
