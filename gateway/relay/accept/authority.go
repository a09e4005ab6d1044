package accept

import (
	"net/http"
	"strings"
)

// DefaultAuthority is the authority of requests that name no host.
const DefaultAuthority = "localhost"

// Authority returns the authority of a request, given the :authority or Host that the client sent. Clients of a unix
// socket send its path in one of many forms, or nothing. Backends may reject a request without a host, or with such a
// text.
func (p *Peer) Authority(sent string) string {
	if sent == "" || p.OnSocket() && !isAuthority(sent) {
		return DefaultAuthority
	}
	return sent
}

// OnSocket reports whether the client has connected to a unix socket.
func (p *Peer) OnSocket() bool { return p.Local != nil && p.Local.Network() == "unix" }

// isAuthority reports whether a text is the name or address of a host, with an optional port (RFC 9110 §7.2). Paths
// and percent-encoded texts are not.
func isAuthority(text string) bool {
	var host, port string
	var hasPort bool
	if inside, is6 := strings.CutPrefix(text, "["); is6 {
		var rest string
		if host, rest, is6 = strings.Cut(inside, "]"); !is6 || rest != "" && rest[0] != ':' {
			return false
		}
		host, port, hasPort = strings.ReplaceAll(host, ":", ""), strings.TrimPrefix(rest, ":"), rest != ""
	} else {
		host, port, hasPort = strings.Cut(text, ":")
	}
	if host == "" || hasPort && (port == "" || strings.Trim(port, "0123456789") != "") {
		return false
	}
	for i := range len(host) {
		c := host[i] | 0x20
		if (c < 'a' || c > 'z') && (host[i] < '0' || host[i] > '9') && strings.IndexByte("-._~", host[i]) < 0 {
			return false
		}
	}
	return true
}

// withPeer sets the host of requests over HTTP/1.1, and the TLS state: their servers do not see the handshake.
func withPeer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if p := PeerOf(req.Context()); p != nil {
			req.Host, req.TLS = p.Authority(req.Host), p.TLS
		}
		next.ServeHTTP(w, req)
	})
}
