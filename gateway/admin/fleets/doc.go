// Package fleets implements capgate.v1.Fleets: the state of fleets and backends, and drains.
package fleets
