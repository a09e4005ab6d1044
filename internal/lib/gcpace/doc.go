// Package gcpace keeps the garbage collector from running often in a process whose live heap is small.
//
// The collector runs each time the heap has doubled. A process that holds 20 MiB and allocates 100 MiB a second
// therefore runs it five times a second, and each run marks all that lives. The Pacer lets the heap of such a process
// grow to a fixed size first, but only while it is busy: an idle process returns to the size that it had before.
package gcpace
