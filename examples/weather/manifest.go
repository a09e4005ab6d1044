package weather

import _ "embed"

//go:embed manifest.yaml
var manifest []byte

// Manifest returns a copy of the capability's manifest.yaml.
func Manifest() []byte { return append([]byte(nil), manifest...) }
