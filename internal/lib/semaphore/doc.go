// Package semaphore bounds how many pieces of work run at once, fairly by tenant.
//
// Whoever wants to work acquires a place first. While places are free nobody waits. Then
// tenants get them in turn, however many of each wait, and none of them ever has the last
// place: a tenant whose work is slow leaves one to all others.
package semaphore
