// Package docs holds the pages of this folder that the gateway shows itself.
package docs

import _ "embed"

// Errors is errors.md, the only list of reasons and their meanings.
//
//go:embed errors.md
var Errors string //nolint:gochecknoglobals // a file
