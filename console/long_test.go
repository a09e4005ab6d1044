package console_test

import (
	"slices"
	"testing"

	"github.com/capgate/capgate/internal/testkit/browsertest"
)

// mostNodes bounds the elements of a screen with a list of 5,000 rows.
const mostNodes = 2500

func long(t *testing.T, b *browsertest.Browser) {
	t.Helper()
	var saw struct {
		Nodes, NodesAtEnd, NodesOfTable int
		Sizes, Rows                     []string
		Down, Up, Kept, Last, Next      string
		InSight, Gapless                bool
	}
	b.Run(t, "long", map[string]any{"origins": []string{startFake(t, nil)}}, &saw)
	if saw.Nodes > mostNodes || saw.NodesAtEnd > mostNodes || saw.NodesOfTable > mostNodes || saw.Nodes < 100 {
		t.Errorf("%d elements at the beginning, %d at the end, %d of a table", saw.Nodes, saw.NodesAtEnd,
			saw.NodesOfTable)
	}
	if !slices.Equal(saw.Sizes, []string{"5000", "1"}) || !slices.Equal(saw.Rows, []string{"5001", "5"}) {
		t.Errorf("rows are %v and %v", saw.Sizes, saw.Rows)
	}
	if saw.Down != "apr_60" || saw.Up != "apr_59" || !saw.InSight || saw.Kept != "apr_59" || saw.Last != "apr_4999" ||
		saw.Next != "apr_60" || !saw.Gapless {
		t.Errorf("%+v", saw)
	}
}
