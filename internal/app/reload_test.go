package app

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/testkit/check"
)

// reloadRig is a process that does not serve, with the file of its configuration.
type reloadRig struct {
	*App
	t    *testing.T
	file string
}

const head = "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n"

func newReloadRig(t *testing.T, text string) *reloadRig {
	t.Helper()
	r := &reloadRig{t: t, file: filepath.Join(t.TempDir(), "capgate.yaml")}
	r.write(text)
	s, err := settings.Load(r.file, settings.Overrides{})
	check.Must(t, err)
	r.App, err = New(s, Options{Log: io.Discard, File: r.file})
	check.Must(t, err)
	t.Cleanup(r.Close)
	return r
}

// write replaces the configuration's text, apart from its head.
func (r *reloadRig) write(text string) {
	r.t.Helper()
	check.Must(r.t, os.WriteFile(r.file, []byte(head+text), 0o600))
}

// fleet returns a configuration's fleet.
func fleet(capability string) string {
	return fmt.Sprintf("fleets: [{capability: %s, backends: ['127.0.0.1:1']}]\n", capability)
}

// has checks which of two fleets there is, and what /readyz says of the configuration.
func (r *reloadRig) has(when, capability, failure string, restart ...string) {
	r.t.Helper()
	for _, id := range []string{"one", "two"} {
		if is := r.fleets.routing.Table().Fleet(id) != nil; is != (id == capability) {
			r.t.Errorf("%s: fleet %s: %t", when, id, is)
		}
	}
	state := r.fleets.reloader.loads.Load().detail()
	if !strings.Contains(state.Error, failure) || (failure == "") != (state.Error == "") {
		r.t.Errorf("%s: error %q, want %q", when, state.Error, failure)
	}
	if !slices.Equal(state.NeedsRestart, restart) {
		r.t.Errorf("%s: restart %q, want %q", when, state.NeedsRestart, restart)
	}
}

// TestReloadKeepsWhatWorks: a file that is invalid, or that a feature rejects, changes nothing, and /readyz has the
// reason until a file is in effect again.
func TestReloadKeepsWhatWorks(t *testing.T) {
	t.Parallel()
	r := newReloadRig(t, fleet("one"))
	r.fleets.reloader.load("test")
	r.has("same", "one", "")
	r.write(fleet("two") + "zone: [1]\n")
	r.fleets.reloader.load("test")
	r.has("invalid", "one", "zone")
	var rejected error
	r.features = append(r.features, feature{prepare: func(*App, *change) error { return rejected }})
	r.write(fleet("two"))
	rejected = errors.New("no room")
	r.fleets.reloader.load("test")
	r.has("rejected", "one", "no room")
	if got := r.fleets.reloader.current.Config.Fleets[0].Capability; got != "one" {
		t.Errorf("%s is in effect", got)
	}
	rejected = nil
	r.fleets.reloader.load("test")
	r.has("accepted", "two", "")
	if got := r.fleets.reloader.loads.Load().failures; got != 2 {
		t.Errorf("%d failures, want 2", got)
	}
}

// TestReloadNamesWhatNeedsARestart: a field that only a restart changes is named while it differs from the start's.
func TestReloadNamesWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	r := newReloadRig(t, fleet("one"))
	for _, test := range []struct {
		text, fleet string
		restart     []string
	}{
		{fleet("two") + "calls: {keep: 7}\n", "two", []string{"calls"}},
		{fleet("one") + "calls: {keep: 7}\n", "one", []string{"calls"}}, // not only of the last load
		{fleet("one"), "one", nil},
	} {
		r.write(test.text)
		r.fleets.reloader.load("test")
		r.has(test.text, test.fleet, "", test.restart...)
	}
	r.write(fleet("one") + "calls: {keep: 7}\n")
	r.fleets.reloader.load("test")
	r.write("fleets: [}")
	r.fleets.reloader.load("test")
	r.has("invalid", "one", "capgate.yaml", "calls")
}

// TestChangedFileSettles: a changed file is loaded when two looks in a row see the same content, an invalid one once,
// and one that never stops changing after a number of looks.
func TestChangedFileSettles(t *testing.T) {
	t.Parallel()
	r := newReloadRig(t, fleet("one"))
	look := r.fleets.reloader.look
	look()
	r.write(fleet("two"))
	look()
	r.has("first look", "one", "")
	look()
	r.has("second look", "two", "")
	r.write("zone: [1]\n")
	for range 4 {
		look()
	}
	if got := r.fleets.reloader.loads.Load().failures; got != 1 {
		t.Errorf("an invalid file was loaded %d times", got)
	}
	r.write(fleet("one"))
	look()
	look()
	for i := range lastLook {
		r.write(fleet("two") + fmt.Sprintf("# %d\n", i))
		look()
	}
	r.has("one look before the last", "one", "")
	r.write(fleet("two") + "# the last\n")
	look()
	r.has("the last look", "two", "")
}

// TestShieldsBeforeFleets: the Shield of a new fleet is there before the fleet gets calls.
func TestShieldsBeforeFleets(t *testing.T) {
	t.Parallel()
	r := newReloadRig(t, fleet("one"))
	judged := false
	r.features = append([]feature{{apply: func(p *App, _ *change) { judged = p.parts.Policy.Shield.For("two") }}},
		r.features...)
	r.write("shields: [{name: main, address: '127.0.0.1:1'}]\nshield: main\n" + fleet("two"))
	r.fleets.reloader.load("test")
	r.has("reload", "two", "")
	if !judged {
		t.Error("the fleet has no Shield yet")
	}
}

// TestNudge: of many nudges one is left to be handled.
func TestNudge(t *testing.T) {
	t.Parallel()
	r := newReloader(&App{}, &settings.Settings{})
	for range 3 {
		r.nudge()
	}
	if n := len(r.wake); n != 1 {
		t.Errorf("%d notes", n)
	}
}

// TestReloadReplacesTheSecret for the uses that need no restart. Without a file, replicas share one in Redis.
func TestReloadReplacesTheSecret(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret.key")
	write := func(secrets ...string) (all [][]byte) {
		t.Helper()
		for i, s := range secrets {
			secrets[i] = strings.Repeat(s, 2*sharedkey.Bytes)
			secret, err := hex.DecodeString(secrets[i])
			check.Must(t, err)
			all = append(all, secret)
		}
		check.Must(t, os.WriteFile(file, []byte(strings.Join(secrets, "\n")), 0o600))
		return sharedkey.Derive(all, "urls")
	}
	want := write("a")
	r := newReloadRig(t, fleet("one")+"secret_file: "+file+"\n")
	keys := r.secret.Keys("urls")
	expect := func(when string, want [][]byte, restart ...string) {
		t.Helper()
		r.has(when, "one", "", restart...)
		if got := keys.Cached(); !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("%s: %x, want %x", when, got, want)
		}
	}
	expect("start", want)
	want = write("b", "a")
	r.fleets.reloader.load("test")
	expect("rotated", want, "secret_file")
	r.write(fleet("one"))
	r.fleets.reloader.load("test")
	expect("removed", nil, "secret_file")
}
