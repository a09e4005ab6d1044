// Package ready is the filter that lets a call wait for a good probe while no backend of its fleet is known to be worth
// the call. The call triggers early probes; it goes on with the first good one, or when its wait is over.
//
// router.Fleet knows what is ready, and health probes. The filter never picks a backend, and never rejects: after the
// wait the filters behind it decide.
package ready
