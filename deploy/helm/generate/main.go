// Command generate writes the files of the chart that have their source elsewhere in the repository, because a chart
// reads no file outside of itself. `make generate` runs it at the root of the repository; with -check it compares.
//
//	values.schema.json   generate/values.schema.json with the schema of the configuration as that of config
//	files/restart.json   the fields of the configuration whose change needs a restart
//	files/rules          deploy/prometheus/rules
//	files/dashboards     deploy/grafana/dashboards
//	files/weather.yaml   the manifest of the demonstration
//	files/redis.acl      deploy/redis/compose.acl
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/capgate/capgate/internal/lib/generated"
)

const (
	chart        = "deploy/helm/capgate"
	configSchema = "internal/config/schema.json"
	valuesSchema = "deploy/helm/generate/values.schema.json"
)

// copies lists the sources of copied files, by their folder or name in the chart.
var copies = []struct{ to, from string }{
	{"files/rules", "deploy/prometheus/rules/*.yml"},
	{"files/dashboards", "deploy/grafana/dashboards/*.json"},
	{"files/weather.yaml", "examples/weather/manifest.yaml"},
	{"files/redis.acl", "deploy/redis/compose.acl"},
}

func main() { generated.Main(run) }

// run writes the generated files of the chart below root, or compares them.
func run(root string, check bool) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	return generated.Put(filepath.Join(root, chart), files, check, "files")
}

// generate returns the generated files by their names in the chart.
func generate(root string) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, c := range copies {
		sources, err := filepath.Glob(filepath.Join(root, c.from))
		if err != nil || len(sources) == 0 {
			return nil, fmt.Errorf("%s is missing: %w", c.from, err)
		}
		for _, source := range sources {
			to := c.to
			if filepath.Ext(to) == "" {
				to += "/" + filepath.Base(source)
			}
			if all[to], err = os.ReadFile(source); err != nil { //nolint:gosec // of the repository
				return nil, err
			}
		}
	}
	return all, addSchemas(root, all)
}
