package console_test

import (
	"testing"

	"github.com/capgate/capgate/internal/testkit/browsertest"
)

// places: the page of a fleet has its name as its heading and the length of time of its charts in its address. A fleet
// that does not exist has no charts.
func places(t *testing.T, b *browsertest.Browser) {
	t.Helper()
	var saw struct {
		Wrong                     []string
		Pressed, Address, Heading string
		Charts                    int
	}
	b.Run(t, "places", map[string]any{"origins": []string{startFake(t, nil)}}, &saw)
	if saw.Pressed != "24 hours" || saw.Address != "#/fleets/mail?span=7d" {
		t.Errorf("%q is pressed; then the address is %s", saw.Pressed, saw.Address)
	}
	if saw.Heading != "nope" || saw.Charts != 0 {
		t.Errorf("heading %q, %d charts of a fleet that does not exist", saw.Heading, saw.Charts)
	}
	for _, w := range saw.Wrong {
		t.Error(w)
	}
}
