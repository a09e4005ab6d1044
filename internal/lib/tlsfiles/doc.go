// Package tlsfiles has the TLS settings of servers and clients in the configuration file. It reads the certificates,
// keys and authorities that they name.
package tlsfiles
