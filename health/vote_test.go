package health

import "testing"

func TestResolve(t *testing.T) {
	t.Parallel()
	up := func(episode uint32) *Vote { return &Vote{State: Up, Episode: episode, By: "x"} }
	down := func(episode uint32) *Vote { return &Vote{State: Down, Episode: episode, By: "y"} }
	for name, test := range map[string]struct {
		first, second *Vote
		confirm       bool
		want          State
		decides       string // first, second or neither
	}{
		"nobody looked":                          {nil, nil, true, Unknown, "neither"},
		"nobody looked, an old second vote":      {nil, down(1), true, Unknown, "neither"},
		"up":                                     {up(1), nil, true, Up, "first"},
		"up, whatever the second says":           {up(1), down(1), true, Up, "first"},
		"down, and nobody to confirm":            {down(1), nil, false, Down, "first"},
		"down, nobody to confirm, an old second": {down(1), up(1), false, Down, "first"},
		"down, not confirmed yet":                {down(1), nil, true, Unknown, "first"},
		"down, confirmed last time only":         {down(2), down(1), true, Unknown, "first"},
		"down, up last time":                     {down(2), up(1), true, Unknown, "first"},
		"down, says both":                        {down(1), down(1), true, Down, "first"},
		"down, but the second reaches it":        {down(1), up(1), true, Up, "second"},
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

// Every replica computes the same order, whoever came first; backends are spread
// evenly; and one that leaves hands over its own backends only.
func TestOrder(t *testing.T) {
	t.Parallel()
	var peers []*peer
	for _, id := range []string{"a", "b", "c", "d"} {
		peers = append(peers, &peer{id: id, hash: hash(id)})
	}
	peers[3].gone = true // when asked
	firsts := map[*peer]int{}
	for i := range 4000 {
		backend := mix(uint64(i) + 1)
		forth, back := target{hash: backend}, target{hash: backend}
		for i := range peers {
			forth.meets(peers[i])
			back.meets(peers[len(peers)-1-i])
		}
		if forth.first != back.first || forth.second != back.second {
			t.Fatal("the order depends on who came first")
		}
		firsts[forth.first]++
		first, second := forth.first, forth.second
		switch changed := forth.losesGone(peers[:3]); {
		case !changed && (forth.first != first || forth.second != second):
			t.Fatal("changed, and does not say so")
		case first == peers[3] && forth.first != second:
			t.Fatal("the second does not become the first")
		case first != peers[3] && forth.first != first:
			t.Fatal("a replica that stays lost a backend")
		}
	}
	for _, p := range peers {
		if n := firsts[p]; n < 900 || n > 1100 {
			t.Errorf("%s is the first for %d of 4,000 backends", p.id, n)
		}
	}
}
