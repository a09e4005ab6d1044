package kubernetes

import (
	"bytes"
	"os"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/registry"
)

// Name is the source of the members.
const Name registry.Source = "kubernetes"

// Config is Kubernetes as a source of backends.
type Config struct {
	// The API server. Default the one of the cluster in which the gateway runs, with the files of its service account.
	API API `yaml:"api" restart:"yes"`
	// Services that announce capabilities with annotations. Default none.
	Watch Watch `yaml:"watch"`
}

// Watch chooses the Services that may announce capabilities.
type Watch struct {
	Enabled bool `yaml:",present"`
	// Namespaces of the Services; "*": all. Default the gateway's own.
	Namespaces []string `yaml:"namespaces" kind:"object_name or *"`
	// Labels of the Services, as selector of a fleet. Default all.
	Selector string `yaml:"selector" kind:"label_selector"`
	// Patterns, in which * matches any text, of the capabilities that Services may announce. Default all that have no
	// fleet in the file.
	Capabilities []string `yaml:"capabilities" kind:"pattern"`
	// ConfigMaps with manifests, which Services of their namespace may name in an annotation. Others are not read.
	// At most 20. Policies that they recommend count only if they are stricter than that of the fleet or of watch.
	// Default none.
	Manifests []string `yaml:"manifests" kind:"object_name"`
	// Policy of capabilities without a fleet, as of a fleet.
	Policy call.Verdict `yaml:"policy" default:"block"`

	Listed map[string]Protocol // the capabilities of the file's fleets
}

// maxWatchedTexts bounds the names of ConfigMaps, each of which has a watch for each namespace.
const maxWatchedTexts = 20

// Check checks the number of ConfigMaps.
func (w *Watch) Check(at strictyaml.At) {
	if n := len(w.Manifests); n > maxWatchedTexts {
		at.Fail("manifests", "has %d names, and may have %d, as each has a watch for each namespace; put several "+
			"manifests into one ConfigMap, under keys of their own", n, maxWatchedTexts)
	}
}

// API is an API server.
type API struct {
	// URL of the API server.
	Address string `yaml:"address" kind:"api_server" default:"https://kubernetes.default.svc"`
	// Authorities of the API server, PEM. Default those of the service account; with another address those of the
	// system.
	CAFile string `yaml:"ca_file" kind:"file"`
	// File with the bearer token. Default the one of the service account; with another address none.
	TokenFile string `yaml:"token_file" kind:"file"`
}

// Client returns the configuration of a client.
func (a *API) Client() kubeapi.Config {
	c := kubeapi.Config{Address: a.Address, CAFile: a.CAFile, TokenFile: a.TokenFile}
	if a.Address == kubeapi.InClusterAddress {
		if c.CAFile == "" {
			c.CAFile = kubeapi.InClusterCA
		}
		if c.TokenFile == "" {
			c.TokenFile = kubeapi.InClusterToken
		}
	}
	return c
}

// OwnNamespace returns the namespace of the gateway's pod; "" outside of a cluster.
func (a *API) OwnNamespace() string {
	if a.Address != kubeapi.InClusterAddress {
		return ""
	}
	name, _ := os.ReadFile(kubeapi.InClusterNamespace) // there is none outside of a cluster
	return string(bytes.TrimSpace(name))
}

// Source are the EndpointSlices with the backends of a fleet.
type Source struct {
	Enabled bool `yaml:",present"`
	// Namespace of the Service. Default the gateway's own.
	Namespace string `yaml:"namespace" kind:"object_name"`
	// Name of the Service.
	Service string `yaml:"service" kind:"object_name"`
	// Labels of the Services, in place of service: tier=tools,app in (weather,words),!canary.
	Selector string `yaml:"selector" kind:"label_selector"`
	// Name of the Service's port, or number of the port of its pods. Default the only TCP port, or among several the
	// only one with appProtocol grpc or kubernetes.io/h2c; with protocol: mcp with http, https or mcp.
	Port string `yaml:"port" kind:"object_port"`
	// Path of the MCP servers at the pods, with protocol: mcp. Default /mcp.
	Path string `yaml:"path" kind:"url_path"`
}

// Protocol is the protocol of the backends of a fleet. The zero value is host:port.
type Protocol struct {
	Web    string // name of the protocol if backends are URLs; "": host:port
	Secure bool   // of a URL
}

// Check checks that the source names its Services in one way.
func (s *Source) Check(at strictyaml.At) {
	switch {
	case at.Has("service") && at.Has("selector"):
		at.Fail("selector", "service already names the Service; give one of the two")
	case !at.Has("service") && !at.Has("selector"):
		at.Missing("service", "required: the name of the Service, or selector with the labels of several")
	}
}
