package tenant

import (
	"math"
	"strconv"
	"strings"
)

// sizes are the units of sizes.
var sizes = [...]struct {
	name  string
	bytes float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9},
	{"TB", 1e12}, {"B", 1}, {"", 1}}

// ParseSize parses a number of bytes, as in 10MiB, 1.5GB or 4096.
func ParseSize(text string) (int64, bool) {
	for _, unit := range sizes {
		number, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		n *= unit.bytes
		if err != nil || math.IsNaN(n) || n < 0 || n > MaxBytes || n != math.Trunc(n) {
			return 0, false
		}
		return int64(n), true
	}
	return 0, false
}
