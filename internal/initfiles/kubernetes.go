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
	hosts := "\nhosts:\n- capgate\n"
	config, err := deployed("kustomize/base/capgate.yaml", "operators: {}\n", b.operators(""), hosts,
		hosts+lines("- %s\n", b.names()))
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
	b.next = fmt.Sprintf("  1. start it:\n     kubectl apply -k %s && kubectl rollout status deployment/capgate\n"+
		"  2. reach it from this machine, in another terminal:\n     kubectl port-forward service/capgate 8080\n"+
		"  3. call a tool:\n     %s\n  4. open the console at http://localhost:8081, and sign in with the key in "+
		"%[1]s/operator.key:\n     kubectl port-forward service/capgate-admin 8081\n", quoted(b.Dir),
		b.call("secrets/tls.crt"))
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
