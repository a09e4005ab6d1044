package router

import (
	"cmp"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Deadlines bound the duration of a fleet's calls. A zero field takes its default. Its fields with tags are a part
// of the configuration file.
type Deadlines struct {
	// Off is true for deadline: off: only a caller's own deadline ends calls of the services of a fleet. It is for
	// services that are not capabilities, whose streams may last for days.
	Off bool `yaml:"-" enum:"off" scalar:""`
	// Deadline of a unary call whose caller sets none; at most max.
	Default time.Duration `yaml:"default" above:"0" default:"120s"`
	// Maximum deadline of a unary call.
	Max time.Duration `yaml:"max" above:"0" default:"15m"`
	// Maximum duration of a streaming call, with or without a deadline.
	Stream time.Duration `yaml:"stream" above:"0" default:"1h"`
}

// Check compares the deadlines.
func (d *Deadlines) Check(at strictyaml.At) {
	if !at.Has("default") {
		d.Default = min(d.Default, d.Max)
	}
	if d.Default > d.Max {
		at.Fail("default", "%s is more than max, which is %s", d.Default, d.Max)
	}
}

func (d Deadlines) withDefaults() Deadlines {
	of := defaults().Deadlines
	d.Max, d.Stream = cmp.Or(d.Max, of.Max), cmp.Or(d.Stream, of.Stream)
	d.Default = min(cmp.Or(d.Default, of.Default), d.Max)
	return d
}

// For returns the time that a call may take: its own deadline, if it has one, within the fleet's
// limit. RPCs outside the capability protocol may be streams, so the streams' limit applies to them, or
// none: then the time is 0 without a deadline of its own.
func (d Deadlines) For(m call.Method, asked time.Duration, has bool) time.Duration {
	if d.Off && m == call.Other {
		return asked
	}
	limit, fallback := d.Stream, d.Stream
	if m == call.Invoke || m == call.Healthcheck {
		limit, fallback = d.Max, d.Default
	}
	if !has {
		return fallback
	}
	return min(asked, limit)
}
