package clientaddr

import "strings"

// What a trusted proxy may say of a request besides who it comes from.
const (
	XForwardedProto = "x-forwarded-proto"
	XForwardedHost  = "x-forwarded-host"
	XForwardedPort  = "x-forwarded-port"
)

// Reserved tells the headers in which anybody could say who calls, or from where, and those that
// are the gateway's own. No backend gets them from a caller.
func Reserved(name string) bool {
	switch name {
	case "x-tenant-id", "x-user-id", "x-agent-id", "x-approval-id", "x-approval-wait", "x-real-ip", Forwarded:
		return true
	}
	for _, prefix := range [...]string{"x-forwarded-", "x-capgate-", "grpc-metadata-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
