// Package call holds the types that every other package uses: a call with its tenant, capability and tool, and
// the reasons for which it may be refused. It imports no other package of this module and decides nothing.
package call
