// Package usage is the service capgate.v1.Usage of the admin API: how much of their limits tenants use.
package usage
