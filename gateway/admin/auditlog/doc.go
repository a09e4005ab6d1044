// Package auditlog implements capgate.v1.AuditLog: recent changes by operators at all replicas.
package auditlog
