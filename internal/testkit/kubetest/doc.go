// Package kubetest is a Kubernetes API server for tests: list and watch over HTTP/2 and TLS, with pages, versions,
// bookmarks, bearer tokens, roles, and the faults of real servers.
package kubetest
