package kubereal

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// DefineResources applies the custom resource definitions in a list, and waits until the API server has their kinds.
// Each line names a module of the module cache with its version, its checksum, and files.
func (c *Cluster) DefineResources(t testing.TB, list string) {
	t.Helper()
	text, err := os.ReadFile(list)
	check.Must(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		dir := moduleDir(t, fields[0], fields[1])
		for file := range strings.SplitSeq(fields[2], ",") {
			c.ApplyFile(t, filepath.Join(dir, file))
		}
	}
	code, body, err := c.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "", nil)
	var defined struct {
		Items []struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Served bool
				}
			}
		}
	}
	check.Must(t, json.Unmarshal(c.must(code, body, err), &defined))
	for _, one := range defined.Items {
		for _, version := range one.Spec.Versions {
			if version.Served {
				check.Succeeds(t, "the kind "+one.Spec.Names.Kind, func() error {
					_, err := c.path(Object{"apiVersion": one.Spec.Group + "/" + version.Name,
						"kind": one.Spec.Names.Kind})
					return err
				})
			}
		}
	}
}

// moduleDir returns the directory of a module in the module cache.
func moduleDir(t testing.TB, module, sum string) string {
	t.Helper()
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	download.Dir = t.TempDir() // outside of any module
	download.Env = append(download.Environ(), "GOPROXY=off")
	out, err := download.Output()
	var found struct{ Dir, Sum, Error string }
	if parsed := json.Unmarshal(out, &found); err != nil || parsed != nil || found.Sum != sum {
		check.Must(t, fmt.Errorf("module %s: %v, %q, checksum %q, want %q; make kubernetes downloads it", module, err,
			found.Error, found.Sum, sum))
	}
	return found.Dir
}
