// Package drains keeps which backends operators have taken out of their fleets, for all
// replicas together: what one is told, all do. A drain outlives replicas. It ends when an
// operator ends it, or an hour after its backend was last seen in any replica's fleets.
//
// It decides nothing about calls: what is in force is handed to whoever routes them. While
// the board is away a replica does as it is told, by itself, and tells the others when the
// board is back.
package drains
