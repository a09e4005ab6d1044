package signin

import (
	"net/url"
	"strings"
)

// maxNext is the maximum length of the path after a sign-in, in bytes.
const maxNext = 1024

// next returns the path after a sign-in: the requested one if it is on this port and below its mount, otherwise Home.
// Browsers interpret "//" and "/\" as the start of another host, and drop control characters.
func (h *Handler) next(asked string) string {
	if !strings.HasPrefix(asked, "/") || len(asked) > maxNext || strings.ContainsFunc(asked, func(c rune) bool {
		return c <= ' ' || c == '\\' || c == 0x7f || c == 0xfffd
	}) {
		return h.cfg.Home
	}
	u, err := url.Parse(asked)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(u.Path, "//") || strings.Contains(u.Path, `\`) {
		return h.cfg.Home
	}
	at, mount := u.Path, h.cfg.Mount
	for _, part := range strings.Split(at, "/") {
		if part == "." || part == ".." {
			return h.cfg.Home
		}
	}
	own := at == mount || strings.HasPrefix(at, mount+"/")
	if !own || at == mount+"/signin" || strings.HasPrefix(at, mount+"/signin/") || at == mount+"/signout" {
		return h.cfg.Home
	}
	return u.String()
}
