package kubereal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Object is the JSON of an object.
type Object = map[string]any

// request sends a request as the administrator.
func (c *Cluster) request(method, path, contentType string, body any) (code int, answer []byte, err error) {
	return c.send("https://"+c.Addr+path, method, contentType, c.admin, body)
}

// Get returns the response to a request with a token.
func (c *Cluster) Get(path, token string) (code int, body []byte, err error) {
	return c.send("https://"+c.Addr+path, http.MethodGet, "", token, nil)
}

// Open sends a GET request with a token. The caller must close the body of the response.
func (c *Cluster) Open(ctx context.Context, path, token string) (*http.Response, error) {
	return c.open(ctx, "https://"+c.Addr+path, http.MethodGet, "", token, nil)
}

func (c *Cluster) send(to, method, contentType, token string, body any) (code int, answer []byte, err error) {
	resp, err := c.open(context.Background(), to, method, contentType, token, body) // also used by cleanups
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

func (c *Cluster) open(ctx context.Context, to, method, contentType, token string, body any) (*http.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "application/json")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	return c.client.Do(req)
}

// must fails the test unless a request has succeeded.
func (c *Cluster) must(code int, body []byte, err error) []byte {
	c.t.Helper()
	check.Must(c.t, err)
	if code >= http.StatusMultipleChoices {
		c.t.Fatalf("API server: %d %s", code, body)
	}
	return body
}

// Apply creates or changes objects by server-side apply.
func (c *Cluster) Apply(t testing.TB, objects ...Object) {
	t.Helper()
	for _, o := range objects {
		check.Must(t, c.apply(o, ""))
	}
}

// Validate applies an object in a dry run. An object without a namespace is in the namespace default.
func (c *Cluster) Validate(o Object) error { return c.apply(o, "&dryRun=All") }

func (c *Cluster) apply(o Object, more string) error {
	path, err := c.path(o)
	if err != nil {
		return err
	}
	code, body, err := c.request(http.MethodPatch, path+"?fieldManager=tests&force=true&fieldValidation=Strict"+more,
		"application/apply-patch+yaml", o)
	if err == nil && code >= http.StatusMultipleChoices {
		err = fmt.Errorf("apply %s: %d %s", path, code, body)
	}
	return err
}

// path returns the URL path of an object.
func (c *Cluster) path(o Object) (string, error) {
	version, kind := fmt.Sprint(o["apiVersion"]), fmt.Sprint(o["kind"])
	group := "/apis/" + version
	if !strings.Contains(version, "/") {
		group = "/api/" + version
	}
	code, body, err := c.request(http.MethodGet, group, "", nil)
	if err != nil {
		return "", err
	}
	var known struct {
		Resources []struct {
			Name, Kind string
			Namespaced bool
		}
	}
	if code == http.StatusOK {
		err = json.Unmarshal(body, &known)
	}
	meta, _ := o["metadata"].(Object)
	name := url.PathEscape(fmt.Sprint(meta["name"]))
	for _, r := range known.Resources {
		switch {
		case r.Kind != kind || strings.Contains(r.Name, "/"):
		case r.Namespaced:
			namespace, named := meta["namespace"].(string)
			if !named {
				namespace = "default"
			}
			return group + "/namespaces/" + namespace + "/" + r.Name + "/" + name, nil
		default:
			return group + "/" + r.Name + "/" + name, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("the API server does not have the kind %s %s", version, kind)
	}
	return "", err
}

// Namespace creates a namespace.
func (c *Cluster) Namespace(t testing.TB, name string) {
	t.Helper()
	c.Apply(t, Object{"apiVersion": "v1", "kind": "Namespace", "metadata": Object{"name": name}})
}

// Put creates or changes an object and sets its name and namespace, like kubetest.Server.Put.
func (c *Cluster) Put(_, namespace, name string, o Object) {
	c.t.Helper()
	whole, meta := Object{}, Object{}
	for field, value := range o {
		whole[field] = value
	}
	if given, is := o["metadata"].(Object); is {
		for field, value := range given {
			meta[field] = value
		}
	}
	meta["name"], meta["namespace"] = name, namespace
	whole["metadata"] = meta
	c.Apply(c.t, whole)
}

// Delete deletes an object of a resource, like kubetest.Server.Delete.
func (c *Cluster) Delete(plural, namespace, name string) {
	c.t.Helper()
	group := "/api/v1"
	switch plural {
	case "endpointslices":
		group = "/apis/discovery.k8s.io/v1"
	case "roles", "rolebindings":
		group = "/apis/rbac.authorization.k8s.io/v1"
	}
	c.must(c.request(http.MethodDelete, group+"/namespaces/"+namespace+"/"+plural+"/"+name, "", nil))
}

// Compact makes etcd discard all versions before the current one.
func (c *Cluster) Compact() {
	c.t.Helper()
	var at struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	check.Must(c.t, json.Unmarshal(c.must(c.send(c.etcd+"/v3/kv/range", http.MethodPost, "application/json", "",
		Object{"key": "Lw==", "limit": 1})), &at))
	c.must(c.send(c.etcd+"/v3/kv/compaction", http.MethodPost, "application/json", "",
		Object{"revision": at.Header.Revision, "physical": true}))
}

// ApplyFile applies the objects of a YAML file.
func (c *Cluster) ApplyFile(t testing.TB, file string) {
	t.Helper()
	f, err := os.Open(file)
	check.Must(t, err)
	defer f.Close()
	for dec := yaml.NewDecoder(f); ; {
		var o Object
		err := dec.Decode(&o)
		if errors.Is(err, io.EOF) {
			return
		}
		check.Must(t, err)
		c.Apply(t, o)
	}
}
