// Package semaphore bounds how many pieces of work run at once, fairly among tenants.
//
// A goroutine acquires a slot before it works. It does not wait while slots are free. Otherwise tenants get
// slots in turn, however many goroutines of each tenant wait. No tenant ever holds the last slot, so a tenant
// whose work is slow leaves one to all others.
package semaphore
