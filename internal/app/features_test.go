package app

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/testkit/check"
)

// recorded returns a feature that writes down which of its functions were called.
func recorded(name string, calls *[]string) feature {
	note := func(what string) { *calls = append(*calls, name+" "+what) }
	return feature{
		prepare: func(*App, *change) error { note("prepare"); return nil },
		apply:   func(*App, *change) { note("apply") },
		close:   func(*App) { note("close") },
	}
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestFeaturesInTheirOrder: all features prepare a change before the first applies it, and close in the opposite order.
func TestFeaturesInTheirOrder(t *testing.T) {
	t.Parallel()
	var calls []string
	p := &App{features: []feature{recorded("a", &calls), {}, recorded("b", &calls)}}
	check.Must(t, p.apply(&change{}))
	p.Close()
	want(t, calls, "a prepare", "b prepare", "a apply", "b apply", "b close", "a close")
}

// TestARejectedChangeIsNotApplied: a feature that cannot prepare a change keeps all others from applying it.
func TestARejectedChangeIsNotApplied(t *testing.T) {
	t.Parallel()
	var calls []string
	rejected := errors.New("rejected")
	p := &App{features: []feature{recorded("a", &calls),
		{prepare: func(*App, *change) error { return rejected }}, recorded("b", &calls)}}
	if err := p.apply(&change{}); !errors.Is(err, rejected) {
		t.Errorf("%v", err)
	}
	want(t, calls, "a prepare")
}

// TestAFailedBuildIsClosed: if a feature cannot be built, it and the features before it are closed, and the others are
// not touched.
func TestAFailedBuildIsClosed(t *testing.T) {
	t.Parallel()
	var calls []string
	build := func(name string, err error) feature {
		f := recorded(name, &calls)
		f.build = func(*App) error { calls = append(calls, name+" build"); return err }
		return f
	}
	failed := errors.New("failed")
	p := &App{}
	if err := p.build([]feature{build("a", nil), build("b", failed), build("c", nil)}); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	want(t, calls, "a build", "b build", "b close", "a close")
}

// local returns a configuration with ports of this machine alone.
func local() *config.Config {
	cfg := config.Default()
	cfg.Listen, cfg.Admin = "127.0.0.1:0", "127.0.0.1:0"
	return cfg
}

// TestWorkEndsInItsOrder: what serves calls goes on until the last call has ended, and what finds new work ends when
// the drain begins. The log of the process does not have the start token.
func TestWorkEndsInItsOrder(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	p, err := New(&settings.Settings{Config: local()}, Options{Log: &log})
	check.Must(t, err)
	var calls []string
	running, drained := make(chan struct{}), make(chan struct{})
	p.features = append(p.features, feature{
		run: func(_ *App, w *work) {
			w.untilDrain("drained", func(ctx context.Context) {
				<-ctx.Done()
				close(drained)
			})
			w.watch(func(ctx context.Context) {
				close(running)
				<-ctx.Done()
				calls = append(calls, "serving ended")
			})
			w.served = append(w.served, func() {
				<-drained
				if calls = append(calls, "last call"); w.serving.Err() != nil {
					t.Error("what serves calls ended before the last call")
				}
			})
		},
		close: func(*App) { calls = append(calls, "close") },
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	<-running
	stop()
	check.Must(t, check.Received(t, ended, "the process to end"))
	want(t, calls, "last call", "serving ended", "close")
	if token := p.operators.token; token == "" || strings.Contains(log.String(), token) {
		t.Errorf("token %q in %s", token, log.String())
	}
}

// TestAdminPortForOtherMachines: without operators, only this machine reaches the admin API, unless the configuration
// opens it.
func TestAdminPortForOtherMachines(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		admin    string
		insecure bool
		want     string
		token    bool
	}{
		{"127.0.0.1:0", false, "", true},
		{"127.0.0.1:0", true, "", false},
		{"0.0.0.0:0", false, "the configuration does not say who may use the admin API", false},
		{"0.0.0.0:0", true, "", false},
	} {
		cfg := local()
		cfg.Admin, cfg.Operators.Insecure = test.admin, test.insecure
		p, err := New(&settings.Settings{Config: cfg}, Options{Log: io.Discard})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test, err)
		}
		if token := p.operators.token != ""; token != test.token {
			t.Errorf("%+v: token %t", test, token)
		}
		if err == nil {
			p.Close()
		}
	}
}
