// Package fairshare divides the resources of a process among their owners, so that no owner takes all of them.
//
// A Pool is an amount of a resource: bytes, or slots. An owner is a tenant, or the address of a caller that is not
// authenticated yet. No owner holds more than four times the free amount. A single owner thus gets four fifths of the
// pool, and others find the rest (Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998).
//
// Pools form a tree. A reservation in a pool counts in its parent as well, for the same owner:
//
//	memory ─┬─ relay     by tenant
//	        ├─ deciding  by tenant
//	        └─ strangers one owner in memory; inside it by address
//
// The root is the memory account of the process. It includes all bytes of the pools below it, and their sum never
// exceeds its limit. The package has no notion of tenants, networks or metrics.
package fairshare
