// Package auditlog is capgate.v1.AuditLog: the last changes by operators at all replicas.
package auditlog
