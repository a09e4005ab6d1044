package main

import (
	"path/filepath"

	"github.com/capgate/capgate/internal/lib/generated"
)

func main() { generated.Main(run) }

// run writes the dashboards, or compares them with the committed ones.
func run(root string, check bool) error {
	return generated.Put(filepath.Join(root, "deploy/grafana/dashboards"), files(), check, ".")
}

// files returns the dashboards by file name.
func files() map[string][]byte {
	all := map[string][]byte{}
	for _, d := range []dashboard{overview(), fleets(), tenants(), policies(), gateway()} {
		all[d.name+".json"] = d.json()
	}
	return all
}
