// Package webhook delivers events of approvals and of quotas to destinations: in requests that are signed according to
// Standard Webhooks (github.com/standard-webhooks/standard-webhooks, spec), as messages to Slack and Teams, and as
// e-mail.
//
//	a transition of an approval ──► the tenant's events    in one script, so that both or none exist
//	                               │ collect: after the tenant's cursor, for each destination
//	                               ▼
//	                            outbox ◄───────────────┐ retry: backoff, Retry-After
//	                               │ lease               │
//	                               ▼                    │
//	                     load the approval ──► POST ─┴─► delivered, or a dead letter
//	                                           or SMTP
//
// Each destination has cursors, an outbox, dead letters and workers of its own, so that one that is slow or dead delays
// no other. No call waits for a delivery or fails because of it: events are read from the stream that approvals write
// anyway. A replica may crash at any point. After a transition its event remains, and another replica collects
// it; after a lease the entry becomes due again. A delivery is made at least once, always with the same
// webhook-id or Message-ID.
//
// Events are lost in two cases. While no replica is alive, a tenant keeps about the last 10,000 events of one day. An
// event that finds the outbox full is dropped and counted.
//
// The URL of a request, its signing key and the password of a mail server are secrets. No error, log record or metric
// contains them, or any text of a receiver.
package webhook
