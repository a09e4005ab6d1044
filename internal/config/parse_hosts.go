package config

import (
	"fmt"

	"github.com/capgate/capgate/internal/lib/hosts"
)

func checkHost(v string) string {
	if !hosts.Valid(v) {
		return fmt.Sprintf("%q is not the name of a host; write capgate.example.com, *.example.com, an address or *, "+
			"without scheme and port", v)
	}
	return ""
}
