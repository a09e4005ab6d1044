// Package protocol implements the filter that matches a call's dialect with its backend's: unchanged, with another
// path, or translated. A call that the backend's dialect cannot express is directed to another backend of the fleet,
// or rejected.
//
// It only sets Call.Attempt.Mode, which later filters follow.
package protocol
