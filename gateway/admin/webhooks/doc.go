// Package webhooks implements capgate.v1.Webhooks of the admin API: events that could not be delivered.
package webhooks
