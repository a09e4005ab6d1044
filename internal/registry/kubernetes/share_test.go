package kubernetes

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/kubeapi"
)

// TestShare: small namespaces get all that they claim, large ones equal shares of the rest, and the oldest Services of
// each are first. The order of the claims does not matter.
func TestShare(t *testing.T) {
	t.Parallel()
	const total = 1250
	for name, test := range map[string]struct{ claims, want []int }{
		"one":                       {[]int{2000}, []int{1250}},
		"small and large":           {[]int{1000, 40, 900}, []int{605, 40, 605}},
		"one after the other":       {[]int{1000, 1000, 1000, 1000, 1000, 10}, []int{248, 248, 248, 248, 248, 10}},
		"more than there are":       {[]int{1250, 1, 1}, []int{1248, 1, 1}},
		"a remainder, by their age": {[]int{700, 700, 700}, []int{417, 417, 416}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var claims []claim[kubeapi.Key]
			for i, n := range test.claims {
				for j := range n {
					key := kubeapi.Key{Namespace: fmt.Sprint("n", i), Name: fmt.Sprintf("s-%04d", j)}
					claims = append(claims, claim[kubeapi.Key]{key: key, namespace: key.Namespace, name: key.Name,
						created: time.Unix(int64(i*10_000+j), 0), size: 1})
				}
			}
			first := share(claims, total)
			for i, n := range test.want {
				for j := range test.claims[i] {
					key := kubeapi.Key{Namespace: fmt.Sprint("n", i), Name: fmt.Sprintf("s-%04d", j)}
					if first[key] != (j < n) {
						t.Fatalf("%v: %v, want the first %d", key, first[key], n)
					}
				}
			}
			rand.Shuffle(len(claims), func(i, j int) { claims[i], claims[j] = claims[j], claims[i] })
			if !maps.Equal(first, share(claims, total)) {
				t.Error("another order has another result")
			}
		})
	}
}

// TestShareOfSizes: a claim that does not fit takes nothing from namespaces that claim less.
func TestShareOfSizes(t *testing.T) {
	t.Parallel()
	of := func(key, namespace string, size int) claim[string] {
		return claim[string]{key: key, namespace: namespace, name: key, size: size}
	}
	got := share([]claim[string]{of("a1", "a", 60), of("a2", "a", 60), of("b1", "b", 40), of("c1", "c", 101)}, 100)
	if want := map[string]bool{"a1": true, "b1": true}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// Two large claims count as much as many small ones.
	got = share([]claim[string]{of("a1", "a", 60), of("a2", "a", 20), of("b1", "b", 10), of("b2", "b", 10),
		of("b3", "b", 10), of("b4", "b", 10), of("b5", "b", 10)}, 100)
	if want := map[string]bool{"b1": true, "b2": true, "b3": true, "b4": true, "b5": true}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
