package toolset

import (
	"fmt"
	"testing"
)

// TestToolsetsOfOthersAreApart: a caller's toolsets are found, listed and compared without those of other tenants.
func TestToolsetsOfOthersAreApart(t *testing.T) {
	t.Parallel()
	all := make([]Toolset, 1000)
	for i := range all {
		all[i] = Toolset{Name: "s", Tenants: []string{fmt.Sprint(i)}}
	}
	now := newSets(fileSets(all))
	for i := range all {
		if found := now.named[id{fmt.Sprint(i), "s"}]; len(found) != 1 || found[0].of != &all[i] {
			t.Fatalf("tenant %d has %d toolsets", i, len(found))
		}
		if found := now.owned[fmt.Sprint(i)]; len(found) != 1 || found[0].of != &all[i] {
			t.Fatalf("tenant %d has %d toolsets in its list", i, len(found))
		}
	}
}
