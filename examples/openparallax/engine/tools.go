package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// tool is a tool of agents.
type tool struct {
	name, description, group, schema string
	kind                             openparallaxv1.ActionType
	writes                           bool // skipped off the record
	run                              func(context.Context, *Engine, action, arguments) (string, error)
}

// arguments holds the arguments of all tools.
type arguments struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Command string `json:"command"`
	Task    string `json:"task"`
	Name    string `json:"name"`
	Message string `json:"message"`
}

// tools lists all tools by group.
func tools() []tool {
	return []tool{
		{name: "read_file", group: "files", kind: openparallaxv1.ActionType_READ_FILE, description: "Read a file",
			schema: object("path"), run: readFile},
		{name: "write_file", group: "files", kind: openparallaxv1.ActionType_WRITE_FILE, description: "Write a file",
			schema: object("path", "content"), writes: true, run: writeFile},
		{name: "delete_file", group: "files", kind: openparallaxv1.ActionType_DELETE_FILE, description: "Delete a file",
			schema: object("path"), writes: true, run: writeFile},
		{name: "execute_command", group: "shell", kind: openparallaxv1.ActionType_EXECUTE_COMMAND,
			description: "Run a command",
			schema:      object("command"), run: execute},
		{name: "create_agent", group: "agents", kind: openparallaxv1.ActionType_CREATE_AGENT,
			description: "Give a task to a sub-agent",
			schema:      object("task"), run: createAgent},
		{name: "agent_message", group: "agents", kind: openparallaxv1.ActionType_AGENT_MESSAGE,
			description: "Tell a sub-agent more",
			schema:      object("name", "message"), run: messageAgent},
		{name: "agent_result", group: "agents", kind: openparallaxv1.ActionType_AGENT_RESULT,
			description: "Wait for a sub-agent",
			schema:      object("name"), run: awaitAgent},
	}
}

// object returns the schema of an object of strings.
func object(required ...string) string {
	properties := map[string]any{}
	for _, name := range required {
		properties[name] = map[string]string{"type": "string"}
	}
	schema, _ := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required})
	return string(schema)
}

// initialTools returns the tool that loads the others.
func initialTools() []*openparallaxv1.ToolDef {
	return []*openparallaxv1.ToolDef{{Name: "load_tools", Description: "Load groups of tools: files, shell, agents",
		ParametersJson: object("groups")}}
}

func toolsOf(groups []string) (defs []*openparallaxv1.ToolDef) {
	for _, t := range tools() {
		if slices.Contains(groups, t.group) {
			defs = append(defs, &openparallaxv1.ToolDef{Name: t.name, Description: t.description,
				ParametersJson: t.schema, Group: t.group})
		}
	}
	return defs
}

// readFile returns the same text for each file: no tool of this example has an effect.
func readFile(_ context.Context, _ *Engine, _ action, in arguments) (string, error) {
	return "what " + in.Path + " says", nil
}

func writeFile(_ context.Context, _ *Engine, _ action, in arguments) (string, error) {
	return in.Path + " is as you want it", nil
}

func execute(_ context.Context, _ *Engine, _ action, in arguments) (string, error) {
	return "ran " + in.Command, nil
}

func createAgent(_ context.Context, e *Engine, a action, in arguments) (string, error) {
	if e.cfg.Spawn == nil {
		return "", errors.New("sub-agents are disabled")
	}
	name, token := e.subAgents.create(a.session, in.Task)
	e.readers.broadcast(a.event(openparallaxv1.PipelineEventType_SUB_AGENT_SPAWNED))
	e.cfg.Spawn(token)
	return name, nil
}

func messageAgent(_ context.Context, e *Engine, _ action, in arguments) (string, error) {
	return "told", e.subAgents.tell(in.Name, in.Message)
}

func awaitAgent(ctx context.Context, e *Engine, _ action, in arguments) (string, error) {
	return e.subAgents.wait(ctx, in.Name)
}
