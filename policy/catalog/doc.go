// Package catalog knows which tools each capability has, and what is said of them.
//
//	manifests, fleets ──► Replace ─┐                     ┌──► Tool, Heeds, Schema, Credentials: a policy.Source
//	                               ▼                     │
//	discovery tools ──► Discoverer ► Catalog ──► snapshot ┼──► Describe, Tools: for lists
//	                               ▲                     │
//	Store ──► Run, what replicas share                   └──► Look: for operators
//
// The tools of a capability are those of its manifest, or those that its discovery tool has
// named. One replica at a time asks, and all have what it found. A set is in force as a
// whole: one that cannot be had, or read, leaves the one before it.
//
// A tool that is gone loses the rules about it before the set without it is in force, so that
// one that comes back under its name finds none.
//
// A tool is known by a hash of its description and schema. The first one that is seen is
// accepted; one that differs has drifted, and asks where it would be allowed, until an
// operator accepts what it is now. What was accepted outlives the tool's absence: a tool that is
// left out once and comes back as another has drifted. A tool that a discovered capability
// does not have is Unlisted: only a rule that names it lets it run.
//
// Readers take no lock: whatever changes is published as a new snapshot. It decides nothing
// (package policy does) and calls nothing (whoever makes a Discoverer says how to).
package catalog
