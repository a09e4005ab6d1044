package redisstore

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// errReply is the error of a reply that does not have the expected values.
var errReply = errors.New("redis returned an unexpected reply")

// reply reads the values of a reply, one after the other. After an error all values are zero, and end returns it.
type reply struct {
	values []any
	err    *error // of the command, or errReply; the lists of a reply share it
}

// read runs a script and returns its reply.
func (c client) read(ctx context.Context, s script, keys []string, args ...any) *reply {
	return replyOf(c.run(ctx, s, keys, args...))
}

// replyOf returns the reply of a script: an array, or one value. A nil reply has no values.
func replyOf(c *redis.Cmd) *reply {
	v, err := c.Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return &reply{err: &err}
	}
	list, ok := v.([]any)
	if !ok && v != nil {
		list = []any{v}
	}
	return valuesOf(list)
}

// valuesOf returns a reply with these values.
func valuesOf(list []any) *reply { return &reply{list, new(error)} }

// more reports whether there is another value.
func (r *reply) more() bool { return *r.err == nil && len(r.values) > 0 }

// end returns the error of the reply, or errReply if values are left.
func (r *reply) end() error {
	if r.more() {
		r.fail()
	}
	return *r.err
}

func (r *reply) fail() {
	if *r.err == nil {
		*r.err = errReply
	}
}

func (r *reply) next() (v any) {
	if !r.more() {
		r.fail()
		return nil
	}
	v, r.values = r.values[0], r.values[1:]
	return v
}

// found reads a string that may be nil.
func (r *reply) found() (text string, ok bool) {
	switch v := r.next().(type) {
	case nil:
	case string:
		return v, true
	default:
		r.fail()
	}
	return "", false
}

// text reads a string; nil is "".
func (r *reply) text() string {
	text, _ := r.found()
	return text
}

// int reads an integer, or a string with one.
func (r *reply) int() (n int64) {
	var err error
	switch v := r.next().(type) {
	case int64:
		n = v
	case string:
		n, err = strconv.ParseInt(v, 10, 64)
	default:
		err = errReply
	}
	if err != nil {
		r.fail()
	}
	return n
}

// millis reads a number of milliseconds.
func (r *reply) millis() time.Duration { return time.Duration(r.int()) * time.Millisecond }

// list reads an array.
func (r *reply) list() *reply {
	list, ok := r.next().([]any)
	if !ok {
		r.fail()
	}
	return &reply{list, r.err}
}

// texts reads all further values as strings.
func (r *reply) texts() (all []string) {
	for r.more() {
		all = append(all, r.text())
	}
	return all
}

// fields reads an array with the fields and values of a hash.
func (r *reply) fields() map[string]string { return r.list().pairs() }

// pairs reads all further values as the fields and values of a hash.
func (r *reply) pairs() map[string]string {
	f := make(map[string]string, len(r.values)/2)
	for r.more() {
		name := r.text()
		f[name] = r.text()
	}
	return f
}
