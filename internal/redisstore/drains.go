package redisstore

import (
	"context"
	"crypto/rand"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/drains"
)

// Drains are the backends that operators took out of fleets. It is a drains.Store.
type Drains struct{ client }

// Drains returns the store of drains.
func (s *Store) Drains() *Drains { return &Drains{s.client(Health)} }

// Exchange implements drains.Store.
func (d *Drains) Exchange(ctx context.Context, r drains.Report) (drains.View, error) {
	var held, calls, names strings.Builder
	for _, x := range r.Active {
		since := strconv.FormatInt(x.Since.UnixMilli(), 10)
		held.WriteString(since + " " + drainField(x.Key) + "\n")
		if slices.Contains(r.Set, x.Key) {
			since = "-" // the store's clock will say it
		}
		if x.By != "" {
			names.WriteString(since + " " + drainField(x.Key) + " " + url.PathEscape(x.By) + "\n")
		}
	}
	for key, n := range r.Calls {
		calls.WriteString(strconv.FormatInt(n, 10) + " " + drainField(key) + "\n")
	}
	keys := d.keys(nil, "{drains}:backends", "{drains}:calls", "{drains}:state", "{drains}:ended", "{drains}:by")
	reply := d.read(ctx, drainsScript, keys, d.channel("drains"), rand.Text(), r.Replica, r.Epoch,
		drainFields(r.Set), drainFields(r.End), held.String(), drainFields(r.Known), calls.String(), r.Leaving,
		drains.MaxDrains, names.String())
	v := drains.View{Epoch: reply.text(), Written: reply.int() == 1, Full: reply.int() == 1}
	drained, counted, by := reply.fields(), reply.fields(), reply.fields()
	if err := reply.end(); err != nil {
		return drains.View{}, err
	}
	for field, value := range drained {
		since, _, _ := strings.Cut(value, " ")
		key, n, ok := parseDrain(since + " " + field)
		if !ok {
			d.malformed(keys[0])
			continue
		}
		name, err := url.PathUnescape(by[field])
		if err != nil {
			d.malformed(keys[4])
		}
		v.Drains = append(v.Drains, drains.Drain{Key: key, Since: time.UnixMilli(n), By: name})
	}
	v.Calls = map[string]map[drains.Key]int64{}
	for replica, value := range counted {
		_, lines, _ := strings.Cut(value, "\n")
		v.Calls[replica] = map[drains.Key]int64{}
		for line := range strings.Lines(lines) {
			if key, n, ok := parseDrain(strings.TrimSuffix(line, "\n")); ok {
				v.Calls[replica][key] = n
			} else {
				d.malformed(keys[1])
			}
		}
	}
	return v, nil
}

// Watch implements drains.Store.
func (d *Drains) Watch(ctx context.Context, changed func()) {
	d.subscribe(ctx, d.channel("drains"), func(string) { changed() }, changed)
}

func drainField(k drains.Key) string { return k.Capability + " " + k.Addr }

func drainFields(keys []drains.Key) string {
	var b strings.Builder
	for _, k := range keys {
		b.WriteString(drainField(k) + "\n")
	}
	return b.String()
}

// parseDrain parses a number, a capability and an address.
func parseDrain(line string) (key drains.Key, n int64, ok bool) {
	words := strings.Split(line, " ")
	if len(words) != 3 || words[1] == "" || words[2] == "" {
		return key, 0, false
	}
	n, err := strconv.ParseInt(words[0], 10, 64)
	return drains.Key{Capability: words[1], Addr: words[2]}, n, err == nil && n >= 0
}

var drainsScript = newScript("drains_exchange")

var _ drains.Store = (*Drains)(nil)
