// Package accept reads the headers Accept and Accept-Encoding.
package accept

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Range is an accepted media type, content coding or wildcard, with its weight (RFC 9110 §12.4.2).
type Range struct {
	Name   string  // in lower case
	Weight float64 // from 0, which means "not acceptable", to 1
}

// Ranges returns the ranges of a header, such as Accept or Accept-Encoding, in their order. Those that are malformed
// are left out; malformed weights are 0.
func Ranges(h http.Header, name string) (all []Range) {
	for _, list := range h.Values(name) {
		for one := range strings.SplitSeq(list, ",") {
			typ, params, err := mime.ParseMediaType(one)
			if err != nil {
				continue // no response can match it
			}
			r := Range{typ, 1}
			if typ == "x-gzip" { // RFC 9110 §8.4.1.3
				r.Name = "gzip"
			}
			if text, ok := params["q"]; ok {
				if r.Weight, err = strconv.ParseFloat(text, 64); err != nil || !(r.Weight >= 0 && r.Weight <= 1) {
					r.Weight = 0
				}
			}
			all = append(all, r)
		}
	}
	return all
}

// Weigh returns the weight of a media type or a content coding: that of its most specific range, or 0 without one.
func Weigh(ranges []Range, name string) float64 {
	kind, _, _ := strings.Cut(name, "/")
	for _, names := range [...][]string{{name}, {kind + "/*"}, {"*/*", "*"}} {
		most, given := 0.0, false
		for _, r := range ranges {
			if slices.Contains(names, r.Name) {
				most, given = max(most, r.Weight), true
			}
		}
		if given {
			return most
		}
	}
	return 0
}

// Named reports whether a request accepts a media type by its name. Browsers name text/html; wildcards, which most
// programs send, are not enough.
func Named(h http.Header, name string) bool {
	for _, r := range Ranges(h, "Accept") {
		if r.Name == name && r.Weight > 0 {
			return true
		}
	}
	return false
}
