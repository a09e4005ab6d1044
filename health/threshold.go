package health

// threshold turns single probe results into a state, so that one lost packet removes no backend
// and one lucky reply restores none.
type threshold struct {
	rise, fall int   // consecutive contrary results that change the state; at least 1
	state      State // Unknown until the first result, which decides alone
	streak     int   // consecutive results that contradict state
}

// recovering reports whether the last result was good, and more of them are needed.
func (j *threshold) recovering() bool { return j.state == Down && j.streak > 0 }

// observe takes one result and reports whether the state changed.
func (j *threshold) observe(ok bool) (changed bool) {
	next, need := Down, j.fall
	if ok {
		next, need = Up, j.rise
	}
	if next == j.state {
		j.streak = 0
		return false
	}
	j.streak++
	if j.state != Unknown && j.streak < need {
		return false
	}
	j.state, j.streak = next, 0
	return true
}
