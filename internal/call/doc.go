// Package call holds the words that every other package uses: what a call is,
// which tenant, capability and tool it names, and why it may be refused.
// It imports nothing of ours and decides nothing.
package call
