package changefeed

// Position is a position in the changes of a store. The zero value is before all changes.
type Position struct {
	Epoch   string // a store that has lost its content begins another one; "" means no content
	Version uint64 // number of changes in the epoch
}

// Continues reports whether the changes up to p include those up to before. If not, the store has lost all content, or
// a failover has undone the last changes.
func (p Position) Continues(before Position) bool {
	return p.Epoch == before.Epoch && p.Version >= before.Version
}
