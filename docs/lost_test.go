package docs_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestEachLostStateIsTested: each row of the table of a loss of data has tests, which exist, and each of these a row.
func TestEachLostStateIsTested(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{ // as folder/TestName
		"rules, and denials for always": {"internal/cli/TestLostRulesBlock", "policy/TestLostRules"},
		"disabled and deleted tenants":  {"internal/cli/TestALossOfRedisRestoresNoCredential"},
		"revoked API keys":              {"internal/cli/TestALossOfRedisRestoresNoCredential"},
		"other API keys": {"internal/tenant/TestTheStoreIsUnavailable",
			"internal/cli/TestKeysWhileRedisIsAway"},
		"revoked sessions of people": {"internal/session/TestLostRevocations",
			"internal/redisstore/TestPeopleLearn"},
		"accepted tools": {"policy/catalog/TestTheStoreIsEmptied"},
		"drains": {"internal/redisstore/TestDrainsAreGivenBack",
			"internal/drains/TestLostStore"},
		"rates and quotas": {"internal/redisstore/TestLimitsOfAnEmptiedRedis",
			"internal/redisstore/TestLimits"},
		"concurrent calls":             {"internal/testkit/sim/TestLimits"},
		"denied and pending approvals": {"internal/redisstore/TestALostAnswerAllowsNothing"},
	}
	text, err := os.ReadFile("run/redis.md")
	check.Must(t, err)
	_, section, _ := strings.Cut(string(text), "## After a loss of data\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \| [^|]+ \|$`).FindAllStringSubmatch(section, -1) {
		rows = append(rows, row[1])
	}
	rows = slices.Delete(rows, 0, min(len(rows), 1)) // the head
	slices.Sort(rows)
	if want := slices.Sorted(maps.Keys(tests)); !slices.Equal(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}
	for row, names := range tests {
		for _, name := range names {
			if !hasTest(t, name) {
				t.Errorf("%s: there is no %s", row, name)
			}
		}
	}
}

// hasTest reports whether a folder has a test, which is named folder/TestName.
func hasTest(t *testing.T, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", filepath.Dir(name), "*_test.go"))
	check.Must(t, err)
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		check.Must(t, err)
		return strings.Contains(string(text), "\nfunc "+filepath.Base(name)+"(t *testing.T)")
	})
}
