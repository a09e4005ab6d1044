// Package protocol is the filter that matches a call's dialect with its backend's: as it is, by another path, or by a
// translation. A call that the dialect cannot say is directed to another backend of the fleet, or rejected.
//
// It never translates: it only sets Call.Attempt.Mode, which the filters after it follow.
package protocol
