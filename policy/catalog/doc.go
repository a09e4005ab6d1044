// Package catalog holds the tools of each capability, and what is declared about them.
//
//	manifests, fleets ──► Replace ─┐                     ┌──► Tool, DependsOnTool, Schema, …: a policy.Source
//	                               ▼                     │
//	discovery tools ──► Discoverer ► Catalog ──► snapshot ┼──► Describe, Tools: for lists
//	                               ▲                     │
//	Store ──► Run, shared by replicas                    └──► Inspect: for operators
//
// The tools of a capability are those of its manifest, or those that its discovery tool returns. One
// replica at a time discovers, and all replicas use the result. A set of tools is published as a whole:
// a discovery that fails, or returns an invalid answer, leaves the previous set.
//
// The rules of a removed tool are deleted before the set without it is published, so that a later tool
// of the same name has no rules.
//
// A tool is identified by a hash of its description and schema. The first one is accepted. One that
// differs has drifted: its calls need approval where they would be allowed, until an operator accepts it.
// The accepted hash outlives the tool's removal, so that a tool that is removed and comes back changed
// has drifted. A tool that a discovered capability does not list is Unlisted: only a rule that names it
// lets it run.
//
// Readers take no lock: each change is published as a new snapshot. The package decides nothing
// (package policy does) and calls nothing itself (the Discoverer gets a function for it).
package catalog
