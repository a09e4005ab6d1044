package filter

import "github.com/capgate/capgate/internal/lib/fairshare"

// holdCost is the memory that a waiting call takes besides its message, in bytes.
const holdCost = 4 << 10

// Hold is a reservation of memory for the message of a waiting call.
type Hold struct {
	account *fairshare.Account
	bytes   int64
}

// NewHold reserves memory for bytes of a call's message until Release. It returns nil if the call's owner has no more
// memory.
func NewHold(c *Call, pool *fairshare.Pool, bytes int) *Hold {
	h := &Hold{pool.Of(c.Principal.Owner()), int64(bytes + holdCost)}
	if !h.account.Reserve(h.bytes) {
		return nil
	}
	return h
}

// Release releases the memory.
func (h *Hold) Release() { h.account.Release(h.bytes) }
