package weather_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/examples/weather"
)

// TestManifestMatchesTheServer: the manifest declares the tools that exist, with the arguments that they accept.
func TestManifestMatchesTheServer(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("manifest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		ID    string
		Image string
		Tools []struct {
			Name        string
			Description string
			Policy      string `yaml:"recommended_policy"`
			Schema      struct {
				Type       string
				Properties map[string]any
				Required   []string
			} `yaml:"input_schema"`
		}
	}
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.ID != "weather" || manifest.Image == "" {
		t.Errorf("id %q, image %q", manifest.ID, manifest.Image)
	}
	c := serve(t, weather.Config{})
	_, unknown := invoke[json.RawMessage](t, c, "", "")
	var names []string
	values := map[string]any{
		"location": "Berlin", "locations": []string{"Berlin"}, "days": 2, "units": "imperial",
		"attachments": []any{},
	}
	for _, tool := range manifest.Tools {
		names = append(names, tool.Name)
		if tool.Policy != "allow" || tool.Schema.Type != "object" || tool.Description == "" {
			t.Errorf("%+v", tool)
		}
		args := map[string]any{}
		for name := range tool.Schema.Properties {
			args[name] = values[name]
		}
		encoded, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		if _, toolError := invoke[json.RawMessage](t, c, tool.Name, string(encoded)); toolError != "" {
			t.Errorf("%s %s: %s", tool.Name, encoded, toolError)
		}
	}
	for _, name := range names {
		if !strings.Contains(unknown, name) {
			t.Errorf("the server does not list %s: %s", name, unknown)
		}
	}
	if served := strings.Count(unknown, ",") + 1; served != len(names) {
		t.Errorf("%d tools declared, %d served: %s", len(names), served, unknown)
	}
}
