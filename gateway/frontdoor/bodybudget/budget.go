package bodybudget

import "github.com/capgate/capgate/internal/lib/fairshare"

// Budget limits the memory of request bodies. It is safe for concurrent use.
type Budget struct {
	pool      *fairshare.Pool
	byAddress map[string]*fairshare.Pool // by tenant, for owners that are distinguished by address
}

// anonymous is the tenant of all requests in a gateway without tenants.
const anonymous = ""

// Unknown is the tenant of clients that are not authenticated yet. No tenant has this id.
const Unknown = "?"

// unknownFraction is the divisor of the memory that all unauthenticated clients may hold together. The rest is
// sufficient for a client that authenticates.
const unknownFraction = 4

// New returns a Budget that reserves its bytes in a pool.
func New(of *fairshare.Pool) *Budget {
	all := of.Limit()
	return &Budget{of, map[string]*fairshare.Pool{
		// One owner has four fifths of the pool. It is divided by address, so that one address leaves room for
		// another.
		anonymous: of.Sub("bodies by address", all-all/(fairshare.Share+1), fairshare.AsOwner(anonymous)),
		Unknown:   of.Sub("bodies of unknown clients", all/unknownFraction, fairshare.AsOwner(Unknown)),
	}}
}

// Used returns the reserved fraction of the budget, from 0 to 1.
func (p *Budget) Used() float64 { return float64(p.pool.Used()) / float64(p.pool.Limit()) }

// account returns the account of a tenant, or of an address if requests of this tenant are distinguished by address.
func (p *Budget) account(tenant, from string) *fairshare.Account {
	if addresses := p.byAddress[tenant]; addresses != nil && from != "" {
		return addresses.Of(from)
	}
	return p.pool.Of(tenant)
}
