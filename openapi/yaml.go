package openapi

import (
	"bytes"
	"fmt"
	"regexp"

	"go.yaml.in/yaml/v4"
)

// YAML converts a document of Write to YAML 1.2 that readers of YAML 1.1 understand the same way.
func YAML(document []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil { // JSON is YAML
		return nil, fmt.Errorf("write an openapi document as yaml: %w", err)
	}
	blockStyle(&root)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&root); err != nil {
		return nil, fmt.Errorf("write an openapi document as yaml: %w", err)
	}
	return b.Bytes(), nil
}

var (
	unquoted = regexp.MustCompile(`^[A-Za-z$_][A-Za-z0-9$_./ -]*[A-Za-z0-9]$`)
	reserved = regexp.MustCompile(`^(?i:yes|no|on|off|true|false|null)$`) // in some version of YAML
)

// blockStyle changes nodes from JSON's flow style to block style. Strings stay quoted unless they are unambiguous.
func blockStyle(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode && len(n.Content) > 0 {
		n.Style = 0
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && unquoted.MatchString(n.Value) &&
		!reserved.MatchString(n.Value) {
		n.Style = 0
	}
	for _, child := range n.Content {
		blockStyle(child)
	}
}
