package health

// resolve says what two votes on one backend come to, and which of them decides;
// nil: none. Confirm says that there is somebody whose second vote is needed: a
// replica that has lost its network must not take a backend from all others.
func resolve(first, second *Vote, confirm bool) (State, *Vote) {
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

// same says whether two votes mean the same.
func (v *Vote) same(o *Vote) bool {
	return v.State == o.State && v.Refused == o.Refused && v.Dialect == o.Dialect && v.Episode == o.Episode
}
