// Package daily keeps the use of tenants' limits on each of the last 30 days, and notices when most of a quota is used.
//
//	Limiter.Peaks ─► Log.Publish, every ten seconds ─► Store, shared by all replicas ─► Log.Days, Log.Near
//	                                                     │
//	                                                     └─► a notice, once for a limit and its period
//
// Nothing happens on the path of a call: the limiter has the numbers in memory. The store has one small record for a
// tenant and day, by the tenant's UID. It expires by itself, and is deleted with the tenant.
package daily
