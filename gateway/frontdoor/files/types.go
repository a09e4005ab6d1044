package files

import (
	"mime"
	"strings"
)

// anyType is the type of files of unknown type.
const anyType = "application/octet-stream"

// maxType is the maximum length of a forwarded media type, in bytes.
const maxType = 255

// mediaType returns a normalized media type; anyType if it is invalid.
func mediaType(said string) string {
	typ, params, err := mime.ParseMediaType(said)
	if err != nil || !strings.Contains(typ, "/") {
		return anyType
	}
	if clean := mime.FormatMediaType(typ, params); clean != "" && len(clean) <= maxType {
		return clean
	}
	return anyType
}

// maySee reports whether a browser may display a type instead of saving it: the type has no active content.
func maySee(clean string) bool {
	typ, _, _ := strings.Cut(clean, ";")
	switch typ {
	case "text/plain", "text/csv", "application/json",
		"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp",
		"audio/mpeg", "audio/mp4", "audio/ogg", "audio/wav", "audio/webm", "audio/flac",
		"video/mp4", "video/webm", "video/ogg":
		return true
	}
	return false
}
