// Package usage implements capgate.v1.Usage of the admin API: the used part of tenants' limits.
package usage
