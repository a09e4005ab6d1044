// Package dnstest is a DNS server for tests, which say what it answers.
package dnstest
