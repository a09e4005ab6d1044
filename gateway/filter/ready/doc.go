// Package ready implements the filter that makes a call wait for a successful probe while no backend of its fleet is
// known to be usable. The call triggers early probes, and continues after the first success or at the end of its wait.
//
// router.Fleet holds the readiness, and package health probes. The filter never rejects: after the wait, later filters
// decide.
package ready
