package filter

import "github.com/capgate/capgate/internal/lib/fairshare"

// holdCost is what a call that waits takes besides its message, in bytes.
const holdCost = 4 << 10

// Hold is memory for the message of a call that waits.
type Hold struct {
	account *fairshare.Account
	bytes   int64
}

// NewHold reserves memory for bytes of a call's message until Release; nil means the call's owner has no more.
func NewHold(c *Call, pool *fairshare.Pool, bytes int) *Hold {
	h := &Hold{pool.Of(c.Principal.Owner()), int64(bytes + holdCost)}
	if !h.account.Reserve(h.bytes) {
		return nil
	}
	return h
}

// Release gives the memory back.
func (h *Hold) Release() { h.account.Release(h.bytes) }
