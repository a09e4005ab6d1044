package files

import (
	"mime"
	"strings"
)

// anyType is the type of what nobody has said a type of.
const anyType = "application/octet-stream"

// maxType is the longest media type that is passed on, in bytes.
const maxType = 255

// mediaType is a media type as it may go on: in one spelling, or anyType where it is none.
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

// maySee is whether a browser may show what is of that type, and not only keep it: nothing
// in it can run.
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
