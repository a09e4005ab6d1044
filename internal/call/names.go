package call

import "strings"

// maxLabel is the maximum length of a label of a host name, in bytes (RFC 1035 §2.3.4).
const maxLabel = 63

// IsLabel reports whether s is a lower-case label of a host name (RFC 1123 §2.1). Capability ids are labels, so
// that :authority can name them.
func IsLabel(s string) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// IsHostName reports whether s is a host name of at most 253 bytes, in any case, with or without the root's
// dot. Underscores are permitted, because container names have them.
func IsHostName(s string) bool {
	s = strings.TrimSuffix(strings.ReplaceAll(strings.ToLower(s), "_", "-"), ".")
	for label := range strings.SplitSeq(s, ".") {
		if !IsLabel(label) {
			return false
		}
	}
	return len(s) <= 253
}

// IsZone reports whether s may name a zone: 1 to 63 letters, digits, hyphens, dots and underscores.
func IsZone(s string) bool {
	return s != "" && len(s) <= maxLabel && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}
