package difftest

import "slices"

// shrink reduces a failing attempt while it fails. It calls fails at most a few hundred times.
func shrink(a *attempt, fails func(*attempt) bool) *attempt {
	for budget := 300; budget > 0; {
		smaller := false
		for _, next := range simpler(a) {
			if budget--; budget <= 0 {
				break
			}
			if fails(next) {
				a, smaller = next, true
				break
			}
		}
		if !smaller {
			break
		}
	}
	return a
}

// simpler returns attempts that are simpler than a, the simplest first.
func simpler(a *attempt) (all []*attempt) {
	change := func(do func(*attempt)) {
		c := a.clone()
		do(c)
		all = append(all, c)
	}
	if len(a.more) > 0 {
		change(func(c *attempt) { c.more = nil })
	}
	if a.pack != plain {
		change(func(c *attempt) { c.pack = plain })
	}
	for _, path := range []string{invokePaths[dialectOf(a.fleet)], downloadPaths[dialectOf(a.fleet)]} {
		if path != "" && !a.json && a.path != path && a.path != invokePaths[dialectOf(a.fleet)] {
			change(func(c *attempt) { c.path = path })
		}
	}
	if !a.json && !slices.Equal(a.header, plainHeader()) {
		change(func(c *attempt) { c.header = plainHeader() })
	}
	for i := range a.header {
		change(func(c *attempt) { c.header = slices.Delete(c.header, i, i+1) })
	}
	if len(a.parts) == 1 { // bytes of it
		part := a.parts[0]
		for size := len(part) / 2; size > 0; size /= 2 {
			for at := 0; at+size <= len(part); at += size {
				change(func(c *attempt) { c.parts = [][]byte{slices.Concat(part[:at], part[at+size:])} })
			}
		}
	}
	for i := range a.parts {
		change(func(c *attempt) { c.parts = slices.Delete(c.parts, i, i+1) })
	}
	return all
}
