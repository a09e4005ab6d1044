// Package accesslog implements the filter that records each call once, at its end: in the access log, the metrics, the
// trace and the audit log. As the first filter of a list, its Done runs last, also for calls that a later filter
// rejects. The audit filter reserves the audit record.
package accesslog
