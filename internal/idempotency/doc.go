// Package idempotency lets a call that has a key be carried out once, however often its
// caller makes it, and at whichever replica.
//
//	             Begin                          End
//	a call ──► claimed, with a lease ──► run ──► answered    repeats get the first answer
//	   │                                   ├───► too large   it was carried out, its answer is not kept
//	   │                                   ├───► unknown     nobody knows whether it was
//	   │                                   └───► forgotten   it provably did not start: the key is free
//	   └─ found: a repeat. It waits while the first runs, wherever that is.
//
// A claim has one owner for ever. Whose lease ends without a word is dead or cut off: a repeat
// is told that the outcome is unknown, and nobody runs the call again. Should the owner be
// heard of after all, its word counts.
//
// Whoever asks for a call to be carried out need not stay: it runs to its end, so that who
// comes back finds the answer.
//
// The store has a hash of the key, a keyed hash of what was asked, and the answer, encrypted.
package idempotency
