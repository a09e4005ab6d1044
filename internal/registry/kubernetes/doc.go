// Package kubernetes finds backends in EndpointSlices:
//
//	config.go ─────► Settings: a Target for each fleet with the field kubernetes
//	services.go ───► a Target for each Service with annotations
//	share.go ──────► equal shares of what is bounded for namespaces (pure)
//	following.go ──► one kubeapi.Mirror for each namespace, however many targets are in it
//	reader.go ─────► manifests in ConfigMaps, read in turn by namespace, beside publications
//	endpoints.go ──► slices of a target ─► its backends (pure)
//	discovery.go ──► Members ─► Options.Changed
//
// It holds addresses and what Kubernetes says about them, but not their health: that is package health. Silence of the
// API server removes no backend.
package kubernetes
