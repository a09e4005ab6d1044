// Package docs holds the pages of this folder that the gateway shows itself.
package docs

import _ "embed"

// Errors is errors.md: what each reason means. It is the only place that says it.
//
//go:embed errors.md
var Errors string //nolint:gochecknoglobals // a file
