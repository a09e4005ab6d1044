// Package redisurl reads the address of a Redis: what kind it is, where it listens and
// who we are there. It connects to nothing, and none of its errors holds a password.
package redisurl
