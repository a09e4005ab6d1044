package bodybudget

import "github.com/capgate/capgate/internal/lib/fairshare"

// Pool is the memory that bodies may take. It is safe for concurrent use.
type Pool struct {
	of        *fairshare.Pool
	addresses map[string]*fairshare.Pool // of owners that are told apart by their address, by tenant
}

// anonymous is the tenant of all requests where there are no tenants.
const anonymous = ""

// Unknown is the tenant of clients whose credential memory does not know; no tenant's id is like it.
const Unknown = "?"

// unknownPart is the part of the memory that clients may have together whose credential memory does not know: one for
// so many bytes. What they leave is enough for one of them that shows who it is.
const unknownPart = 4

// NewPool makes one of the bytes of another.
func NewPool(of *fairshare.Pool) *Pool {
	all := of.Limit()
	return &Pool{of, map[string]*fairshare.Pool{
		// One owner has four fifths of the pool. They are divided, so that one address leaves room for another.
		anonymous: of.Sub("bodies by address", all-all/(fairshare.Share+1), fairshare.AsOwner(anonymous)),
		Unknown:   of.Sub("bodies of unknown clients", all/unknownPart, fairshare.AsOwner(Unknown)),
	}}
}

// Used is how much of it is held: 1 is all.
func (p *Pool) Used() float64 { return float64(p.of.Used()) / float64(p.of.Limit()) }

// account is what a tenant's requests hold, or, where that tells nobody apart, those of an address.
func (p *Pool) account(tenant, from string) *fairshare.Account {
	if addresses := p.addresses[tenant]; addresses != nil && from != "" {
		return addresses.Of(from)
	}
	return p.of.Of(tenant)
}
