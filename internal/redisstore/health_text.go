package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// The encoding of health in Redis; times are ms since 1970:
//
//	digest       replica beat probes sum late                          beat: its time; late in ms
//	field        capability addr slot                                  slot 0 or 1; "v": the shard's version
//	observation  since written state refused dialect episode by reason
//	event        "page" n version previous, which is 0 if the shard was lost, then a line with a
//	             field and one with its observation, empty if it was deleted; or compact, as in health_compact.go
//	             "left" replica

const (
	eventShard = "page"
	eventLeft  = "left"

	maxReplica = 255 // bytes of a replica's name
	maxText    = 512 // bytes; a longer reason is cut
)

func encodeDigest(d health.Digest) string {
	return fmt.Sprintf("%d %x %d", d.Probes, d.Sum, d.Late.Milliseconds())
}

func decodeDigest(s string) (health.Digest, bool) {
	f := strings.Fields(s)
	if len(f) != 3 {
		return health.Digest{}, false
	}
	probes, err1 := strconv.Atoi(f[0])
	sum, err2 := strconv.ParseUint(f[1], 16, 64)
	late, err3 := strconv.ParseUint(f[2], 10, 40)
	return health.Digest{
		Probes: probes, Sum: sum, Late: time.Duration(late) * time.Millisecond,
	}, errors.Join(err1, err2, err3) == nil && probes >= 0
}

// decodeMember parses a digest and its sender; now is in ms since 1970.
func decodeMember(s string, now int64) (health.Member, bool) {
	f := strings.SplitN(s, " ", 3)
	if len(f) != 3 || f[0] == "" || len(f[0]) > maxReplica {
		return health.Member{}, false
	}
	at, err := strconv.ParseInt(f[1], 10, 64)
	digest, ok := decodeDigest(f[2])
	return health.Member{
		Replica: f[0], Age: max(0, time.Duration(now-at)*time.Millisecond), Digest: digest,
	}, ok && err == nil
}

func encodeKey(k health.Key) (string, bool) {
	clean := !strings.ContainsAny(k.Capability+k.Addr, " \n\r\t") && k.Capability != "" && k.Addr != ""
	return k.Capability + " " + k.Addr + " " + strconv.Itoa(int(k.Role)), clean
}

func decodeKey(s string) (health.Key, bool) {
	f := strings.Split(s, " ")
	if len(f) != 3 || f[0] == "" || f[1] == "" || f[2] != "0" && f[2] != "1" {
		return health.Key{}, false
	}
	k := health.Key{Capability: f[0], Addr: f[1]}
	if f[2] == "1" {
		k.Role = health.Secondary
	}
	return k, true
}

// encodeObservation encodes all but the times, which the script writes.
func encodeObservation(v *health.Observation) string {
	refused := 0
	if v.Refused {
		refused = 1
	}
	reason := strings.NewReplacer("\n", " ", "\r", " ").Replace(v.Reason)
	return fmt.Sprintf("%d %d %d %d %s %s", v.State, refused, v.Dialect, v.Episode, v.By, reason)
}

func decodeObservation(s string) (*health.Observation, bool) {
	f := strings.SplitN(s, " ", 8)
	if len(f) != 8 || len(f[6]) > maxReplica {
		return nil, false
	}
	var n [6]uint64
	for i, bits := range []int{62, 62, 2, 1, 8, 32} {
		var err error
		if n[i], err = strconv.ParseUint(f[i], 10, bits); err != nil {
			return nil, false
		}
	}
	state, dialect := health.State(n[2]), call.Dialect(n[4])
	if state != health.Up && state != health.Down || dialect > call.Legacy {
		return nil, false
	}
	return &health.Observation{
		Since: int64(n[0]), Written: int64(n[1]), State: state, Refused: n[3] == 1, Dialect: uint8(n[4]),
		Episode: uint32(n[5]), By: strings.Clone(f[6]), Reason: strings.Clone(untrusted.Cut(f[7], maxText)),
	}, true
}

func decodeEvent(message string) (health.Event, bool) {
	lines := strings.Split(message, "\n")
	f := strings.Split(lines[0], " ")
	switch {
	case len(f) == 2 && f[0] == eventLeft && f[1] != "" && len(lines) == 1:
		return health.Event{Left: f[1]}, true
	case len(f) != 4 && len(f) != 5 || f[0] != eventShard:
		return health.Event{}, false
	}
	page, err1 := strconv.ParseUint(f[1], 10, 16)
	version, err2 := strconv.ParseUint(f[2], 10, 64)
	previous, err3 := strconv.ParseUint(f[3], 10, 64)
	if errors.Join(err1, err2, err3) != nil || page >= health.Shards || version <= previous {
		return health.Event{}, false
	}
	n, lines := health.Event{Shard: int(page), Version: version, Previous: previous}, lines[1:]
	if len(f) == 5 {
		var ok bool
		if lines, ok = expandChanges(lines, f[4]); !ok {
			return health.Event{}, false
		}
	}
	if len(lines)%2 != 0 {
		return health.Event{}, false
	}
	for ; len(lines) > 0; lines = lines[2:] {
		k, ok := decodeKey(lines[0])
		if !ok {
			return health.Event{}, false
		}
		e := health.Entry{Key: k}
		if lines[1] != "" {
			if e.Observation, ok = decodeObservation(lines[1]); !ok {
				return health.Event{}, false
			}
		}
		n.Entries = append(n.Entries, e)
	}
	return n, true
}
