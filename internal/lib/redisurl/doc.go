// Package redisurl parses the address of a Redis: its kind, its hosts and the account there. It connects to
// nothing, and its errors hold no password.
package redisurl
