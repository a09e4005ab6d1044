// Package fairshare divides what a process has among its owners, so that none of them takes what is everybody's.
//
// A Pool is an amount of something: bytes, or places. An owner is a tenant, or, before a caller is known, the address
// that it calls from. No owner holds more than four times what is free, so an owner alone has four fifths of the pool,
// and others find the rest (Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998).
//
// Pools form a tree. What is reserved in a pool is reserved in the pool above it as well, for the same owner:
//
//	memory ─┬─ relay     by tenant
//	        ├─ deciding  by tenant
//	        └─ strangers one owner in memory; inside it by address
//
// The pool at the root is the accountant of the process: it knows all bytes of the pools below it, and their sum never
// passes its limit. The package knows no tenants, no network and no metrics.
package fairshare
