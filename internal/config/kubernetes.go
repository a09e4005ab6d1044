package config

import (
	"strconv"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/weburl"
	"github.com/capgate/capgate/internal/registry/kubernetes"
)

// checkAPIServer accepts the URL of a Kubernetes API server.
func checkAPIServer(v string) string {
	u, err := weburl.ParseBare(v, "https://10.0.0.1:6443")
	if err != nil {
		return err.Error()
	}
	return unless(u.Scheme == "https", "needs https://, as requests have the token of a service account")
}

// checkObjectName accepts the name of a namespace or a Service.
func checkObjectName(v string) string {
	return unless(call.IsLabel(v), "%q is not the name of a Kubernetes object; it has 1 to 63 lower-case letters, "+
		"digits and hyphens, and no hyphen at either end", v)
}

func checkObjectNameOrAll(v string) string {
	if v == "*" {
		return ""
	}
	return checkObjectName(v)
}

// checkObjectPort accepts the name or the number of a port.
func checkObjectPort(v string) string {
	if n, err := strconv.Atoi(v); err == nil {
		return unless(n > 0 && n < 1<<16, "port %d must be from 1 to 65535", n)
	}
	return unless(call.IsLabel(v) && len(v) <= 15 && !strings.Contains(v, "--"),
		"%q is not the name of a port; it has 1 to 15 lower-case letters, digits and hyphens", v)
}

func checkURLPath(v string) string {
	return unless(kubernetes.IsPath(v), "%q is not the path of a URL, as in /mcp", v)
}

func checkLabelSelector(v string) string {
	if _, err := kubernetes.ParseSelector(v); err != nil {
		return err.Error()
	}
	return ""
}
