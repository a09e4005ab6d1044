// Package summary implements capgate.v1.Summary: the state of all replicas at a glance, and what needs attention.
package summary
