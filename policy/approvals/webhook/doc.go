// Package webhook tells a URL of what happens to approvals, with requests that are signed as
// Standard Webhooks says (github.com/standard-webhooks/standard-webhooks, spec).
//
//	a step of an approval ──► the tenant's events      one script, so neither is without the other
//	                               │ gather: after the tenant's cursor
//	                               ▼
//	                            outbox ◄───────────────┐ later: backoff, Retry-After
//	                               │ claim: a lease     │
//	                               ▼                    │
//	                     look the approval up ──► POST ─┴─► delivered, or a dead letter
//
// No call waits for any of it, or fails because of it: what is to be told is read from the
// events that approvals leave behind anyway. A replica may die at any point. Who dies after
// a step leaves an event, which another gathers; who dies with an entry leaves a lease that
// ends. A delivery is made at least once, and each time has the same webhook-id.
//
// What is lost: events of a tenant beyond the last 10,000 or so, or older than a day, while no
// replica lives to gather them; and those that find the outbox full, which are counted.
//
// Requests have no secrets but what the URL holds, which is in no error, log or metric.
package webhook
