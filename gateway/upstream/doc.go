// Package upstream has what protocols share whose backends are not capabilities, and are served in the process.
//
//	relay ─► Protocols.Serve ─► Backends of the protocol ─► Fleets.Lookup ─► the backend
//
// A protocol is a folder with its settings and a function Open that returns its Backends. Package protocols lists them,
// with their words in the configuration. What callers need to know of a fleet's protocol, they read in router.Traits.
package upstream
