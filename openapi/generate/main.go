// Command generate writes openapi/routes.json from base.yaml, or openapi/admin.json from admin.yaml, and the output of
// protoc-gen-openapiv3. `make generate` runs it.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/internal/lib/plainjson"
)

// services are the protos with routes at each port, by the name of the file that they are merged into.
var services = map[string][]string{
	"base.yaml": {"gateway", "catalog", "engines", "approvals", "artifacts", "tenants", "own_calls"},
	"admin.yaml": {"summary", "calls", "auditlog", "playground", "approvals", "policies", "tenants", "catalog_admin",
		"registry", "webhooks", "fleets", "usage", "history", "operators", "toolsets"},
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: generate BASE.yaml DIR, where DIR has the output of protoc-gen-openapiv3")
		os.Exit(2)
	}
	if err := run(os.Stdout, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, base, dir string) error {
	text, err := os.ReadFile(base)
	if err != nil {
		return err
	}
	var doc object
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("%s: %w", base, err)
	}
	for _, s := range services[filepath.Base(base)] {
		text, err := os.ReadFile(filepath.Join(dir, s+".openapi.json"))
		if err != nil {
			return err
		}
		var more object
		if err := json.Unmarshal(text, &more); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		merge(doc, more)
	}
	addProblems(doc)
	if err := dropUnused(doc); err != nil {
		return err
	}
	text, err = plainjson.Indent(doc)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}
