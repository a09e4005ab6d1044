// Package upstream contains the common parts of protocols whose backends are not capabilities and that are served in
// the process.
//
//	relay ─► Protocols.Serve ─► Backends of the protocol ─► Fleets.Lookup ─► the backend
//
// A protocol is a folder with its settings and a function Open that returns its Backends. Package protocols lists
// them, with their names in the configuration. Other packages use router.Traits of a fleet's protocol.
package upstream
