// Package drains keeps the backends that operators have taken out of their fleets, for all replicas: a
// drain that one replica accepts applies to all. A drain outlives replicas. It ends when an operator ends
// it, or an hour after its backend was last seen in any replica's fleets.
//
// The package decides nothing about calls: it hands the drains in force to the router. While the store is
// unavailable a replica applies its operators' drains alone, and shares them when the store is back.
package drains
