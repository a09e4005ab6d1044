// Package audit implements the filter that reserves the audit record of a call before anything is carried out. A call
// that cannot be recorded is rejected if the log is configured so. The access log writes the record, or releases the
// reservation.
package audit
