package config

import (
	"net/url"
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Artifacts configures files over HTTP. All fields but max_size should be the same for all replicas.
type Artifacts struct {
	MaxSize int64 // max_size: of one file, or one form of files, in one request; default 1GiB
	// signing_key_file: keys of signed URLs, one a line of 32 bytes in base64 or hex: the first signs, all verify;
	// default none, and replicas share one in Redis
	KeyFile   string
	MaxURLTTL time.Duration // max_url_ttl: maximum validity of a signed URL, 1s to 168h; default 1h
	// public_url: beginning of signed URLs, http or https; default none, and they have neither scheme nor host
	PublicURL string
}

func (p *parser) filesOverHTTP(at strictyaml.Place) {
	a := &p.config.Artifacts
	p.Mapping(at, map[string]strictyaml.Field{
		"max_size":         p.size(&a.MaxSize),
		"signing_key_file": p.names(&a.KeyFile),
		"max_url_ttl":      p.DurationUpTo(&a.MaxURLTTL, time.Second, 168*time.Hour),
		"public_url":       p.Text(&a.PublicURL, checkPublicURL),
	})
}

// checkPublicURL does not repeat the URL, which may contain a password.
func checkPublicURL(v string) string {
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" {
		return "must be a URL without user, query and fragment, as in https://tools.example.com"
	}
	return ""
}
