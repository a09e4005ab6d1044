package health

// judge turns single probe results into a state, so that one lost packet takes
// no backend out and one lucky answer brings none back.
type judge struct {
	rise, fall int   // consecutive results against the state that change it; at least 1
	state      State // Unknown until the first result, which decides at once
	streak     int   // consecutive results against state
}

// observe takes one result and says whether the state changed.
func (j *judge) observe(ok bool) (changed bool) {
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
