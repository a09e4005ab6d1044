package clientaddr

import "strings"

// Further headers of trusted proxies.
const (
	XForwardedProto = "x-forwarded-proto"
	XForwardedHost  = "x-forwarded-host"
	XForwardedPort  = "x-forwarded-port"
)

// Reserved reports whether a header is never forwarded from a caller to a backend. These headers tell
// identities or client addresses, hold credentials for a proxy or a browser's site, or are the gateway's own.
func Reserved(name string) bool {
	switch name {
	case "x-tenant-id", "x-user-id", "x-agent-id", "x-approval-id", "x-approval-wait", "x-real-ip", "cookie", Forwarded:
		return true
	}
	for _, prefix := range [...]string{"x-forwarded-", "x-capgate-", "proxy-", "grpc-metadata-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
