package toolschema

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"strconv"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

var seed = maphash.MakeSeed()

// duplicates returns two equal elements of an array.
func (c *checker) duplicates(v strictjson.Value) (i, j int, found bool) {
	type hashed struct {
		sum uint64
		at  int
		v   strictjson.Value
	}
	all := make([]hashed, 0, v.Len())
	for i, e := range v.Elements() {
		sum := c.sum(e)
		if c.stopped != nil {
			return 0, 0, false
		}
		all = append(all, hashed{sum, i, e})
	}
	slices.SortFunc(all, func(a, b hashed) int { return cmp.Or(cmp.Compare(a.sum, b.sum), cmp.Compare(a.at, b.at)) })
	for a := range all {
		for b := a + 1; b < len(all) && all[a].sum == all[b].sum; b++ {
			if c.equal(all[a].v, all[b].v) {
				return all[a].at, all[b].at, true
			}
			if c.stopped != nil {
				return 0, 0, false
			}
		}
	}
	return 0, 0, false
}

// sum hashes a value. Equal values have equal hashes.
func (c *checker) sum(v strictjson.Value) uint64 {
	if !c.spend(1) {
		return 0
	}
	switch v.Kind() {
	case strictjson.Number:
		c.spend(len(v.Bytes()) / 16)
		f, _ := strconv.ParseFloat(string(v.Bytes()), 64)
		return maphash.Comparable(seed, math.Float64bits(f+0)) // 0, not -0
	case strictjson.String:
		c.spend(len(v.Bytes()) / 64)
		return maphash.Bytes(seed, v.Bytes())
	case strictjson.Array:
		sum := uint64(len("array"))
		for _, e := range v.Elements() {
			sum = maphash.Comparable(seed, [2]uint64{sum, c.sum(e)})
		}
		return sum
	case strictjson.Object:
		sum := uint64(len("object"))
		for name, member := range v.Members() {
			sum += maphash.Comparable(seed, [2]uint64{c.sum(name), c.sum(member)}) // in any order
		}
		return sum
	default:
		return uint64(v.Kind())
	}
}

// equal reports whether two values are equal.
func (c *checker) equal(a, b strictjson.Value) bool {
	if !c.spend(1) || a.Kind() != b.Kind() {
		return false
	}
	switch a.Kind() {
	case strictjson.Number:
		return c.same(a.Bytes(), b.Bytes())
	case strictjson.String:
		c.spend(len(a.Bytes()) / 64)
		return bytes.Equal(a.Bytes(), b.Bytes())
	case strictjson.Array:
		return a.Len() == b.Len() && c.equalElements(a, b)
	case strictjson.Object:
		return a.Len() == b.Len() && c.equalMembers(a, b)
	default:
		return true
	}
}

func (c *checker) equalElements(a, b strictjson.Value) bool {
	others := make([]strictjson.Value, 0, b.Len())
	for _, e := range b.Elements() {
		others = append(others, e)
	}
	for i, e := range a.Elements() {
		if !c.equal(e, others[i]) {
			return false
		}
	}
	return true
}

func (c *checker) equalMembers(a, b strictjson.Value) bool {
	for name, member := range a.Members() {
		if !c.spend(b.Len() / 4) {
			return false
		}
		other, there := b.Get(string(name.Bytes()))
		if !there || !c.equal(member, other) {
			return false
		}
	}
	return true
}
