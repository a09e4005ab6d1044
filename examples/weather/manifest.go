package weather

import _ "embed"

//go:embed manifest.yaml
var manifest []byte

// Manifest returns the text of the capability's manifest.yaml, of the caller's own.
func Manifest() []byte { return append([]byte(nil), manifest...) }
