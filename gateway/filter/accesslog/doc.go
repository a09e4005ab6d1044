// Package accesslog is the filter that records each call once, when it has ended: its line in the access log, its
// metrics, the end of its trace and its record in the audit log. It is the first of a list, so that it comes last, and
// also for calls that a later filter rejects. The audit filter has reserved the place of the audit record.
package accesslog
