// Package credentials checks the names in a call's config_json, for fleets that accept only declared ones. The values
// are secrets: they are skipped byte by byte, neither decoded nor kept, and no error repeats any of them.
package credentials
