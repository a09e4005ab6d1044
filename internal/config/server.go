package config

import (
	"github.com/capgate/capgate/gateway/builtin/signing"
	"github.com/capgate/capgate/gateway/frontdoor/files"
)

// Artifacts configures files over HTTP.
type Artifacts struct {
	Files files.Config   `yaml:",inline"`
	URLs  signing.Config `yaml:",inline"`
}
