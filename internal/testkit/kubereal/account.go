package kubereal

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Account is the directory with the files of a service account, as kubelet mounts it into a pod.
type Account struct {
	Dir             string
	namespace, name string
	c               *Cluster
}

// CAFile returns the path of the authority.
func (a *Account) CAFile() string { return filepath.Join(a.Dir, "ca.crt") }

// TokenFile returns the path of the token.
func (a *Account) TokenFile() string { return filepath.Join(a.Dir, "token") }

// CreateAccount creates a service account.
func (c *Cluster) CreateAccount(t testing.TB, namespace, name string) {
	t.Helper()
	c.Apply(t, Object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": Object{"name": name,
		"namespace": namespace}})
}

// Mount writes the files of a service account to a directory.
func (c *Cluster) Mount(t testing.TB, dir, namespace, name string) *Account {
	t.Helper()
	a := &Account{Dir: dir, namespace: namespace, name: name, c: c}
	a.Rotate(t)
	for _, file := range []string{"ca.crt", "token", "namespace"} {
		check.Must(t, os.Symlink(filepath.Join("..data", file), filepath.Join(dir, file)))
	}
	return a
}

// Rotate replaces the files, with a new token, by switching a symbolic link, as kubelet does.
func (a *Account) Rotate(t testing.TB) {
	t.Helper()
	next := "..data-" + rand.Text()
	check.Must(t, os.Mkdir(filepath.Join(a.Dir, next), 0o755))
	authority, err := os.ReadFile(a.c.CAFile)
	check.Must(t, err)
	for name, text := range map[string]string{"ca.crt": string(authority), "token": a.c.Token(t, a.namespace, a.name),
		"namespace": a.namespace} {
		check.Must(t, os.WriteFile(filepath.Join(a.Dir, next, name), []byte(text), 0o644))
	}
	link := filepath.Join(a.Dir, "..data_tmp")
	check.Must(t, os.Symlink(next, link))
	check.Must(t, os.Rename(link, filepath.Join(a.Dir, "..data")))
}

// Token requests a token of a service account.
func (c *Cluster) Token(t testing.TB, namespace, account string) string {
	t.Helper()
	body := c.must(c.request(http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+account+"/token",
		"application/json", Object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
			"spec": Object{"expirationSeconds": 600}}))
	var answer struct{ Status struct{ Token string } }
	check.Must(t, json.Unmarshal(body, &answer))
	if answer.Status.Token == "" {
		t.Fatalf("the API server returned no token: %.200s", body)
	}
	return answer.Status.Token
}
