// Package jsonpointer writes JSON pointers (RFC 6901).
package jsonpointer

import "strings"

var escapes = strings.NewReplacer("~", "~0", "/", "~1")

// Escape returns the name of a member as a pointer has it, without a slash before.
func Escape(name string) string { return escapes.Replace(name) }
