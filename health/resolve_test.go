package health

import "testing"

func TestResolve(t *testing.T) {
	t.Parallel()
	up := func(episode uint32) *Observation { return &Observation{State: Up, Episode: episode, By: "x"} }
	down := func(episode uint32) *Observation { return &Observation{State: Down, Episode: episode, By: "y"} }
	for name, test := range map[string]struct {
		first, second *Observation
		confirm       bool
		want          State
		decides       string // first, second or neither
	}{
		"no observation":                        {nil, nil, true, Unknown, "neither"},
		"an old second observation alone":       {nil, down(1), true, Unknown, "neither"},
		"up":                                    {up(1), nil, true, Up, "first"},
		"up, contradicted by the second":        {up(1), down(1), true, Up, "first"},
		"down, without a second replica":        {down(1), nil, false, Down, "first"},
		"down, without one, an old observation": {down(1), up(1), false, Down, "first"},
		"down, not confirmed yet":               {down(1), nil, true, Unknown, "first"},
		"down, confirmed last time only":        {down(2), down(1), true, Unknown, "first"},
		"down, up last time":                    {down(2), up(1), true, Unknown, "first"},
		"down, according to both":               {down(1), down(1), true, Down, "first"},
		"down, but the second reaches it":       {down(1), up(1), true, Up, "second"},
	} {
		state, by := resolve(test.first, test.second, test.confirm)
		decides := "neither"
		if by != nil && by == test.first {
			decides = "first"
		} else if by != nil {
			decides = "second"
		}
		if state != test.want || decides != test.decides {
			t.Errorf("%s: %v by the %s, want %v by the %s", name, state, decides, test.want, test.decides)
		}
	}
}

// Every replica computes the same owners in any order of joining. Backends are spread evenly, and a
// replica that leaves hands over only its own backends.
func TestOwnership(t *testing.T) {
	t.Parallel()
	var peers []*peer
	for _, id := range []string{"a", "b", "c", "d"} {
		peers = append(peers, &peer{id: id, hash: hash(id)})
	}
	peers[3].gone = true // seen by dropGone only
	firsts := map[*peer]int{}
	for i := range 4000 {
		backend := mix(uint64(i) + 1)
		forth, back := endpoint{hash: backend}, endpoint{hash: backend}
		for i := range peers {
			forth.consider(peers[i])
			back.consider(peers[len(peers)-1-i])
		}
		if forth.primary != back.primary || forth.secondary != back.secondary {
			t.Fatalf("the owners depend on the order of joining; forth %+v", forth)
		}
		firsts[forth.primary]++
		first, second := forth.primary, forth.secondary
		switch changed := forth.dropGone(peers[:3]); {
		case !changed && (forth.primary != first || forth.secondary != second):
			t.Fatal("the owner changed without a report")
		case first == peers[3] && forth.primary != second:
			t.Fatal("the secondary does not become the primary")
		case first != peers[3] && forth.primary != first:
			t.Fatal("a replica that stays lost a backend")
		}
	}
	for _, p := range peers {
		if n := firsts[p]; n < 900 || n > 1100 {
			t.Errorf("%s is the primary of %d of 4,000 backends", p.id, n)
		}
	}
}
