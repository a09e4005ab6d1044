package health

// resolve returns the state that follows from two observations of one backend, and the one that
// decides, or nil. With confirm, Down needs both: a replica that lost its network must not take a
// backend out of service everywhere.
func resolve(first, second *Observation, confirm bool) (State, *Observation) {
	switch {
	case first == nil:
		return Unknown, nil
	case first.State != Down || !confirm:
		return first.State, first
	case second == nil || second.Episode != first.Episode:
		return Unknown, first // not confirmed yet
	case second.State == Down:
		return Down, first
	default:
		return second.State, second
	}
}

// same reports whether two observations mean the same. Two replicas that find a backend Down differ, since one confirms
// the other.
func (v *Observation) same(o *Observation) bool {
	return v.State == o.State && v.Refused == o.Refused && v.Dialect == o.Dialect && v.Episode == o.Episode &&
		(v.Reason == unresolved) == (o.Reason == unresolved) && (v.By == o.By || v.State != Down)
}
