// Package calls implements capgate.v1.Calls: the recent calls of all replicas, as a list and as a stream.
package calls
