// Package fleets is the service capgate.v1.Fleets of the admin API: the state of fleets and backends, and drains.
package fleets
