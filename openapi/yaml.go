package openapi

import (
	"bytes"
	"fmt"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// YAML is a document that Write made, as YAML 1.2 that readers of 1.1 understand the same.
func YAML(document []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil { // JSON is YAML
		return nil, fmt.Errorf("write an openapi document as yaml: %w", err)
	}
	block(&root)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&root); err != nil {
		return nil, fmt.Errorf("write an openapi document as yaml: %w", err)
	}
	return b.Bytes(), nil
}

var (
	bare    = regexp.MustCompile(`^[A-Za-z$_][A-Za-z0-9$_./ -]*[A-Za-z0-9]$`)
	special = regexp.MustCompile(`^(?i:yes|no|on|off|true|false|null)$`) // to some version of YAML
)

// block takes the form of JSON from nodes. Strings keep their quotes unless nobody could take them for anything else.
func block(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode && len(n.Content) > 0 {
		n.Style = 0
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && bare.MatchString(n.Value) && !special.MatchString(n.Value) {
		n.Style = 0
	}
	for _, child := range n.Content {
		block(child)
	}
}
