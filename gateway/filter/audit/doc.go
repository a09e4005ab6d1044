// Package audit is the filter that reserves a place for the audit record of a call, before anything is carried out. A
// call that cannot be recorded is rejected where the log is configured so. The access log writes the record, or gives
// the place back.
package audit
