package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/lib/plainjson"
)

// A schema is a JSON Schema.
type schema = map[string]any

// addSchemas adds the files that are derived from the schema of the configuration.
func addSchemas(root string, to map[string][]byte) error {
	config, values := schema{}, schema{}
	if err := read(filepath.Join(root, configSchema), &config); err != nil {
		return err
	}
	if err := read(filepath.Join(root, valuesSchema), &values); err != nil {
		return err
	}
	var err error
	if to["files/restart.json"], err = plainjson.Indent(restarts(config, nil)); err != nil {
		return err
	}
	maps.DeleteFunc(config, func(key string, _ any) bool { return strings.HasPrefix(key, "$") })
	config["description"] = "capgate.yaml; without fleets, kubernetes and registration: a demonstration"
	delete(config["properties"].(schema)["tls"].(schema), "required") // the chart sets the files
	values["properties"].(schema)["config"] = config
	to["values.schema.json"], err = plainjson.Indent(values)
	return err
}

func read(file string, into any) error {
	text, err := os.ReadFile(file) //nolint:gosec // of the repository
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// A restart is a field whose change needs a restart.
type restart struct {
	Path    []string   `json:"path"`
	Switch  bool       `json:"switch,omitempty"`  // only adding or removing the field needs a restart
	Without [][]string `json:"without,omitempty"` // fields in it whose change takes effect at once
}

// The sentences at the end of a field's description: those of config.RestartNote.
const (
	restartAll    = "A change needs a restart."
	restartSwitch = "To turn it on or off needs a restart."
	restartNever  = "A change takes effect at once."
)

// restarts returns the fields of an object whose change needs a restart.
func restarts(of schema, path []string) (all []restart) {
	fields, _ := of["properties"].(schema)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, at := fields[name].(schema), append(slices.Clone(path), name)
		switch note, _ := field["description"].(string); {
		case strings.HasSuffix(note, restartAll):
			all = append(all, restart{Path: at, Without: atOnce(field, at)})
		case strings.HasSuffix(note, restartSwitch):
			all = append(all, restart{Path: at, Switch: true})
		default:
			all = append(all, restarts(field, at)...)
		}
	}
	return all
}

// atOnce returns the fields of an object whose change takes effect at once.
func atOnce(of schema, path []string) (all [][]string) {
	fields, _ := of["properties"].(schema)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, at := fields[name].(schema), append(slices.Clone(path), name)
		if note, _ := field["description"].(string); strings.HasSuffix(note, restartNever) {
			all = append(all, at)
		} else {
			all = append(all, atOnce(field, at)...)
		}
	}
	return all
}
