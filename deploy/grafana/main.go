package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("dir", "deploy/grafana/dashboards", "`directory` to write to")
	flag.Parse()
	if err := write(*dir); err != nil {
		fmt.Fprintf(os.Stderr, "grafana: %v\n", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	for name, data := range files() {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return fmt.Errorf("write a dashboard: %w", err)
		}
	}
	return nil
}

// files returns the dashboards by the names of their files.
func files() map[string][]byte {
	all := map[string][]byte{}
	for _, d := range []dashboard{overview(), fleets(), tenants(), policies(), gateway()} {
		all[d.name+".json"] = d.json()
	}
	return all
}
