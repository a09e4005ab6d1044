// Package history implements capgate.v1.History: the numbers of the calls of the last seven days.
package history
