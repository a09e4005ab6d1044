package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
)

// names are the names of a document, of operations and of components, as generators of clients compare them: in lower
// case and without underscores, because they turn the names into identifiers of many languages.
type names map[string]bool

var unnamable = regexp.MustCompile(`[^A-Za-z0-9]`)

// fixedNames returns the names of the fixed part.
func fixedNames(d *document) (names, error) {
	all := names{}
	for _, components := range d.Components {
		for name := range components {
			all.add(name)
		}
	}
	for path, item := range d.Paths {
		var operations map[string]struct {
			ID string `json:"operationId"`
		}
		if err := json.Unmarshal(item, &operations); err != nil {
			return nil, fmt.Errorf("routes.json: %s: %w", path, err)
		}
		for _, o := range operations {
			all.add(o.ID)
		}
	}
	return all, nil
}

func (n names) clone() names { return maps.Clone(n) }

// add reports whether a name is unused, and uses it.
func (n names) add(name string) bool {
	short := strings.ToLower(strings.ReplaceAll(name, "_", ""))
	if n[short] {
		return false
	}
	n[short] = true
	return true
}

// of returns an unused name of a tool's operation and component: letters, digits and underscores, with a letter at the
// beginning.
func (n names) of(capability, tool string) string {
	wanted := unnamable.ReplaceAllString(capability+"_"+tool, "_")
	if first := wanted[0]; first == '_' || '0' <= first && first <= '9' {
		wanted = "capability_" + wanted
	}
	name := wanted
	for i := 2; !n.add(name); i++ {
		name = wanted + "_" + strconv.Itoa(i)
	}
	return name
}
