// Package checks contains stateless filters: functions that continue or reject a call, or record something about it.
package checks
