// Package calls is capgate.v1.Calls: the last calls of all replicas, as a list and as they end.
package calls
