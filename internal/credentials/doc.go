// Package credentials looks at the names in a call's config_json, for fleets that let
// only declared ones through. The values are secrets: they are walked over byte by byte and
// neither decoded nor kept, and no error repeats anything that the caller sent.
package credentials
