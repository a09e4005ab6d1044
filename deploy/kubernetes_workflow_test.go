package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/internal/testkit/check"
)

var (
	testFunc  = regexp.MustCompile(`(?ms)^func (Test\w+)\(t \*testing\.T\) \{$(.*?)^\}$`)
	rendering = regexp.MustCompile(`\b(renderChart|chartConfig|chartNotes|upgraded)\(|"helm/capgate"`)
	selection = regexp.MustCompile(`go test .*\./deploy -run '(\S+)'`)
)

// TestTheWorkflowRunsTheTestsOfTheChart: the chart's workflow runs each test that renders the chart, after installing
// the programs that the tests start.
func TestTheWorkflowRunsTheTestsOfTheChart(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../.github/workflows/chart.yml")
	check.Must(t, err)
	before, _, _ := strings.Cut(string(text), "./deploy -run")
	if !strings.Contains(before, "tools/setup\n") {
		t.Error("no program is installed before the tests")
	}
	selected := selection.FindStringSubmatch(string(text))
	if selected == nil {
		t.Fatal("the workflow runs no tests")
	}
	files, err := filepath.Glob("*_test.go")
	check.Must(t, err)
	run, found := regexp.MustCompile(selected[1]), 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		check.Must(t, err)
		for _, test := range testFunc.FindAllStringSubmatch(string(source), -1) {
			if !rendering.MatchString(test[2]) {
				continue
			}
			if found++; !run.MatchString(test[1]) {
				t.Errorf("%s: the workflow does not run %s", file, test[1])
			}
		}
	}
	if found < 15 {
		t.Errorf("%d tests of the chart", found)
	}
}

// TestTheWorkflowFollowsTheSourcesOfTheChart: a change of any source of the chart starts its workflow.
func TestTheWorkflowFollowsTheSourcesOfTheChart(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../.github/workflows/chart.yml")
	check.Must(t, err)
	var workflow struct {
		On struct{ Push struct{ Paths []string } }
	}
	check.Must(t, yaml.Unmarshal(text, &workflow))
	generator, err := os.ReadFile("helm/generate/main.go")
	check.Must(t, err)
	sources := regexp.MustCompile(`"((?:deploy|examples|internal)/[^"]+)"`).FindAllStringSubmatch(string(generator), -1)
	if len(sources) < 6 {
		t.Errorf("the sources of the chart are %v", sources)
	}
	for _, source := range sources {
		covered := false
		for _, path := range workflow.On.Push.Paths {
			covered = covered || path == source[1] || strings.HasPrefix(source[1], strings.TrimSuffix(path, "**"))
		}
		if !covered {
			t.Errorf("the workflow has no path of %s", source[1])
		}
	}
}
