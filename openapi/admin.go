package openapi

import (
	_ "embed"
	"sync"
)

//go:embed admin.json
var admin []byte

// Admin returns the document of the admin API as JSON. It must not be changed.
func Admin() []byte { return admin }

// AdminYAML returns the same document as YAML.
var AdminYAML = sync.OnceValues(func() ([]byte, error) { return YAML(admin) })
