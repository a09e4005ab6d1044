package sources

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/registry/kubernetes"
)

// Sections are the sections of the configuration for sources.
type Sections struct {
	// Resolution of dns:///… backends.
	DNS registry.Resolution `yaml:"dns"`
	// Kubernetes as a source of backends.
	Kubernetes kubernetes.Config `yaml:"kubernetes"`
	// Permissions of backends that register themselves.
	Registration registry.Permissions `yaml:"registration"`
}

// Fields are the fields of a fleet for sources that find its backends.
type Fields struct {
	// Backends from the EndpointSlices of Kubernetes Services, besides those of backends.
	Kubernetes kubernetes.Source `yaml:"kubernetes"`
}

// Check checks the fields against the protocol of the fleet, whose backends may be URLs.
func (f *Fields) Check(at strictyaml.At, urls bool) {
	if f.Kubernetes.Path != "" && !urls {
		at.Field("kubernetes").Fail("path", "is only for fleets whose backends are URLs, as with protocol: mcp")
	}
}

// AnnounceManifests reports whether backends may bring manifests.
func (s *Sections) AnnounceManifests() bool {
	return s.Registration.Manifests || len(s.Kubernetes.Watch.Manifests) > 0
}

// All returns the sources.
func All() []Source {
	return []Source{
		{
			Name:  kubernetes.Name,
			Finds: func(f *Fields) bool { return f.Kubernetes.Enabled },
			Policy: func(s *Sections) (call.Verdict, bool) {
				return s.Kubernetes.Watch.Policy, s.Kubernetes.Watch.Enabled
			},
			OnlyStricter: true,
			Open:         openKubernetes,
		},
		{
			Name: registry.Lease, // and registry.DNS, whose names are backends of a fleet
			Policy: func(s *Sections) (call.Verdict, bool) {
				return s.Registration.Policy, len(s.Registration.Capabilities) > 0
			},
			Open: openRegistry, Once: lookUpNames,
		},
	}
}

func openKubernetes(s *Settings, o Options) Opened {
	client := kubeapi.New(s.Kubernetes.API.Client())
	d := kubernetes.New(client, ofKubernetes(s), kubernetes.Options{Log: o.Log, Changed: o.Changed,
		Namespace: s.Kubernetes.API.OwnNamespace(), ReadManifest: o.ReadManifest})
	return Opened{Finder: d, Try: func(s *Settings) { d.Try(ofKubernetes(s)) }, Commit: d.Commit,
		Manifest: d.Manifest, Warnings: d.Warnings, Close: client.Close}
}

func ofKubernetes(s *Settings) kubernetes.Settings {
	next := kubernetes.Settings{Rules: s.Registration, Watch: s.Kubernetes.Watch}
	next.Watch.Listed = map[string]kubernetes.Protocol{}
	for i := range s.Fleets {
		f := &s.Fleets[i]
		protocol := kubernetes.Protocol{Web: f.Web, Secure: f.Secure}
		next.Watch.Listed[f.Capability] = protocol
		if f.Kubernetes.Enabled {
			next.Targets = append(next.Targets, kubernetes.Target{Capability: f.Capability, Source: f.Kubernetes,
				Protocol: protocol, Weight: f.Weight})
		}
	}
	return next
}

func openRegistry(s *Settings, o Options) Opened {
	o.Registry.Set(ofRegistry(s))
	return Opened{Finder: o.Registry, Try: func(s *Settings) { o.Registry.Set(ofRegistry(s)) },
		Manifest: func(sum registry.Sum) registry.Document { return registered(o, sum) }}
}

// registered returns the manifest of a registration, or nil.
func registered(o Options, sum registry.Sum) registry.Document {
	text := o.Registry.Manifest(sum)
	if text == "" || o.ReadManifest == nil {
		return nil
	}
	m, refusal := o.ReadManifest(text)
	if refusal != nil {
		return nil
	}
	return m
}

func ofRegistry(s *Settings) registry.Settings {
	next := registry.Settings{Resolution: s.DNS, Rules: registry.Rules{Permissions: s.Registration,
		Fleets: make(map[string]bool, len(s.Fleets)), Tenants: s.Tenants}}
	for i := range s.Fleets {
		next.Rules.Fleets[s.Fleets[i].Capability] = true
		next.Targets = append(next.Targets, s.Fleets[i].Names...)
	}
	return next
}

// lookUpNames looks up the DNS names. There are no registrations without a store.
func lookUpNames(ctx context.Context, s *Settings) (all []registry.Member, problems []error) {
	resolver := registry.NewResolver(s.DNS.Server)
	for _, target := range ofRegistry(s).Targets {
		found, err := registry.Lookup(ctx, resolver, target)
		if err != nil {
			problems = append(problems, fmt.Errorf("fleet %s: %s: %w", target.Capability, target.Name, err))
		}
		all = append(all, found...)
	}
	return all, problems
}

// once opens a source and returns the backends that it finds first.
func (s *Source) once(ctx context.Context, settings *Settings, o Options) (all []registry.Member, problems []error) {
	if s.Once != nil {
		return s.Once(ctx, settings)
	}
	d := s.Open(settings, o)
	defer d.close()
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Run(running)
	}()
	err := d.Await(ctx)
	stop()
	<-ended
	if err != nil {
		problems = append(problems, err)
	}
	for _, text := range d.warnings() {
		problems = append(problems, errors.New(text))
	}
	all = slices.Clone(d.Members())
	for i := range all {
		all[i].Manifest = registry.Sum{} // its text has ended with the source
	}
	return all, problems
}
