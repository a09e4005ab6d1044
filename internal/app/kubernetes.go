package app

import (
	"bytes"
	"context"
	"errors"
	"os"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/registry/kubernetes"
)

// kubernetesFeature finds the backends of EndpointSlices.
func kubernetesFeature() feature {
	var client *kubeapi.Client
	return feature{
		build: func(p *App) error {
			client = kubeapi.New(p.started.Config.Kubernetes.API.Client())
			cfg := p.started.Config
			p.fleets.slices = kubernetes.New(client, kubernetesSettings(cfg), kubernetes.Options{Log: p.log,
				Changed: func() { p.fleets.reloader.nudge() }, Namespace: ownNamespace(cfg)})
			others := p.parts.Ready.Warnings
			p.parts.Ready.Warnings = func() []string { return append(others(), p.fleets.slices.Warnings()...) }
			return p.metrics.Add(p.fleets.slices)
		},
		run: func(p *App, w *work) {
			w.watch(p.fleets.slices.Run)
			ctx, cancel := context.WithTimeout(w.start, namesTime)
			defer cancel()
			_ = p.fleets.slices.Await(ctx) // then they come later
		},
		close: func(*App) {
			if client != nil {
				client.Close()
			}
		},
	}
}

// ownNamespace returns the namespace of the gateway's pod; "" outside of a cluster.
func ownNamespace(cfg *config.Config) string {
	if cfg.Kubernetes.API.Address != kubeapi.InClusterAddress {
		return ""
	}
	name, _ := os.ReadFile(kubeapi.InClusterNamespace) // there is none outside of a cluster
	return string(bytes.TrimSpace(name))
}

// kubernetesSettings returns a configuration's settings of Kubernetes.
func kubernetesSettings(cfg *config.Config) kubernetes.Settings {
	s := kubernetes.Settings{Rules: cfg.Registration, Watch: cfg.Kubernetes.Watch}
	for i := range cfg.Fleets {
		f := &cfg.Fleets[i]
		s.Watch.Listed = append(s.Watch.Listed, f.Capability)
		if f.Kubernetes.Enabled {
			s.Targets = append(s.Targets, kubernetes.Target{Capability: f.Capability, Source: f.Kubernetes,
				Weight: config.DefaultBackend("").Weight})
		}
	}
	return s
}

// membersOfSlices looks up the EndpointSlices of a configuration once.
func membersOfSlices(ctx context.Context, cfg *config.Config) (all []registry.Member, problems []error) {
	s := kubernetesSettings(cfg)
	if len(s.Targets) == 0 && !s.Watch.Enabled {
		return nil, nil
	}
	client := kubeapi.New(cfg.Kubernetes.API.Client())
	defer client.Close()
	d := kubernetes.New(client, s, kubernetes.Options{Namespace: ownNamespace(cfg)})
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
	for _, text := range d.Warnings() {
		problems = append(problems, errors.New(text))
	}
	return d.Members(), problems
}
