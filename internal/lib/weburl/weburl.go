// Package weburl reads absolute URLs of HTTP and HTTPS. Its errors do not repeat the URL, which may contain a secret.
package weburl

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
)

// Parse returns a URL that has a host, and neither a user nor a fragment. The error continues a sentence about the URL
// and shows the example.
func Parse(text, example string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("is not an HTTP URL; write it whole, as in " + example)
	case u.User != nil || u.Fragment != "":
		return nil, errors.New("must have neither a user nor a fragment")
	}
	return u, nil
}

// ParseBare is Parse for a URL that must not have a query either.
func ParseBare(text, example string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err == nil && (u.User != nil || u.Fragment != "" || u.RawQuery != "" || u.ForceQuery) {
		return nil, errors.New("must have neither a user, a query nor a fragment")
	}
	return Parse(text, example)
}

// IsCleartext reports whether requests to a URL cross a network without encryption.
func IsCleartext(u *url.URL) bool { return u.Scheme == "http" && !IsLoopback(u.Hostname()) }

// IsLoopback reports whether a host without its port is this machine.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}
