package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/manifest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const (
	callTool  = "tools/call"
	getPrompt = "prompts/get"
)

// operation is the request of the protocol that serves a call.
type operation struct {
	method  string
	tool    string            // empty means a feature
	task    *task             // of the server for this call; nil means none
	meta    sdk.Meta          // of the request
	answers questions.Answers // to the questions of an earlier result; not for a completion
	uri     string            // of the resource to subscribe to; empty means another operation
	// send sends the request. Its error counts only if there is no response.
	send func(ctx context.Context, cs *sdk.ClientSession, meta sdk.Meta) error
	// read converts the result. If whole is true, it includes the rest.
	read func(raw []byte, whole bool) (*toolResult, error)
}

// operationOf returns the operation of a call. The error is a gRPC status.
func operationOf(req *docpb.InvokeRequest) (*operation, error) {
	arguments, err := argumentsOf(req.GetArgsJson())
	if err != nil {
		return nil, err
	}
	name := req.GetToolName()
	prompt, isPrompt := strings.CutPrefix(name, manifest.PromptPrefix)
	switch {
	case isPrompt:
		return promptOf(prompt, arguments)
	case name == manifest.ReadResource:
		return resourceOf(arguments)
	case name == manifest.Subscribe:
		return subscriptionOf(arguments)
	case name == manifest.Complete:
		return completionOf(arguments)
	}
	op := &operation{method: callTool, tool: name, read: resultOf}
	op.send = func(ctx context.Context, cs *sdk.ClientSession, meta sdk.Meta) error {
		_, err := cs.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: arguments, Meta: meta,
			InputResponses: responsesOf(op.answers.Responses), RequestState: op.answers.State})
		return err
	}
	return op, nil
}

func promptOf(name string, arguments json.RawMessage) (*operation, error) {
	var texts map[string]string
	if err := strictjson.Unmarshal(arguments, &texts); err != nil {
		return nil, notStrings(arguments)
	}
	if err := manifest.CheckPrompt(name); err != nil {
		return nil, invalidArguments("the prompt cannot be got: " + err.Error())
	}
	op := &operation{method: getPrompt, read: read[promptResult]}
	op.send = func(ctx context.Context, cs *sdk.ClientSession, meta sdk.Meta) error {
		_, err := cs.GetPrompt(ctx, &sdk.GetPromptParams{Name: name, Arguments: texts, Meta: meta,
			InputResponses: responsesOf(op.answers.Responses), RequestState: op.answers.State})
		return err
	}
	return op, nil
}

func resourceOf(arguments json.RawMessage) (*operation, error) {
	uri, err := uriOf(manifest.ReadResource, arguments)
	if err != nil {
		return nil, err
	}
	op := &operation{method: manifest.ReadResource, read: read[resourceResult]}
	op.send = func(ctx context.Context, cs *sdk.ClientSession, meta sdk.Meta) error {
		_, err := cs.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri, Meta: meta,
			InputResponses: responsesOf(op.answers.Responses), RequestState: op.answers.State})
		return err
	}
	return op, nil
}

// uriOf returns the only argument of a call of a resource.
func uriOf(method string, arguments json.RawMessage) (string, error) {
	var of struct {
		URI string `json:"uri"`
	}
	if strictjson.UnmarshalKnown(arguments, &of) != nil {
		return "", invalidArguments(method + " has the argument uri, a string, and no other")
	}
	if err := manifest.CheckURI(of.URI); err != nil {
		return "", invalidArguments("the resource cannot be read: " + err.Error())
	}
	return of.URI, nil
}

// subscriptionOf returns a subscription to a resource, see server.subscribe.
func subscriptionOf(arguments json.RawMessage) (*operation, error) {
	uri, err := uriOf(manifest.Subscribe, arguments)
	if err != nil {
		return nil, err
	}
	return &operation{method: manifest.Subscribe, uri: uri,
		send: func(ctx context.Context, cs *sdk.ClientSession, meta sdk.Meta) error {
			return cs.Subscribe(ctx, &sdk.SubscribeParams{URI: uri, Meta: meta})
		},
		read: func([]byte, bool) (*toolResult, error) { return subscribed(), nil },
	}, nil
}

func completionOf(arguments json.RawMessage) (*operation, error) {
	var of struct {
		Ref struct {
			Type string `json:"type"`
			Name string `json:"name"`
			URI  string `json:"uri"`
		} `json:"ref"`
		Argument struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"argument"`
		Context struct {
			Arguments map[string]string `json:"arguments"`
		} `json:"context"`
	}
	err := strictjson.UnmarshalKnown(arguments, &of)
	prompt, resource := of.Ref.Type == "ref/prompt", of.Ref.Type == "ref/resource"
	if err != nil || prompt && of.Ref.URI != "" || resource && of.Ref.Name != "" || !prompt && !resource ||
		of.Argument.Name == "" {
		return nil, invalidArguments("completion/complete has the arguments ref, argument and context of MCP")
	}
	params := sdk.CompleteParams{
		Ref:      &sdk.CompleteReference{Type: of.Ref.Type, Name: of.Ref.Name, URI: of.Ref.URI},
		Argument: sdk.CompleteParamsArgument{Name: of.Argument.Name, Value: of.Argument.Value},
	}
	if of.Context.Arguments != nil {
		params.Context = &sdk.CompleteContext{Arguments: of.Context.Arguments}
	}
	return &operation{method: manifest.Complete, read: read[completeResult],
		send: func(ctx context.Context, cs *sdk.ClientSession, meta sdk.Meta) error {
			own := params
			own.Meta = meta
			_, err := cs.Complete(ctx, &own)
			return err
		}}, nil
}

// featureResult is the result of a feature, in the form for callers: without the name of the server, and without
// members that the protocol does not have.
type featureResult interface {
	check() error // reports a member of another type than MCP's
}

// read converts the result of a feature, which becomes the call's result as a whole.
func read[T any, R interface {
	*T
	featureResult
}](raw []byte, _ bool) (*toolResult, error) {
	var asks result
	if strictjson.Unmarshal(raw, &asks) == nil && asks.requestsInput() {
		return asks.requested(), nil
	}
	of := R(new(T))
	if err := strictjson.Unmarshal(raw, of); err != nil {
		return nil, errMember
	}
	if err := of.check(); err != nil {
		return nil, err
	}
	text, err := plainjson.Marshal(of)
	return &toolResult{json: text}, err
}

var errMember = errors.New("a member is missing, or has the wrong type")

// promptResult is the result of prompts/get.
type promptResult struct {
	Description string            `json:"description,omitempty"`
	Messages    []json.RawMessage `json:"messages"`
	Meta        json.RawMessage   `json:"_meta,omitempty"`
}

func (r *promptResult) check() error {
	if r.Meta = foreign(r.Meta); r.Messages == nil {
		return errMember
	}
	for _, raw := range r.Messages {
		var m struct {
			Role    string `json:"role"`
			Content struct {
				Type string `json:"type"`
			} `json:"content"`
		}
		if strictjson.Unmarshal(raw, &m) != nil || m.Role != "user" && m.Role != "assistant" || m.Content.Type == "" {
			return errMember
		}
	}
	return nil
}

// resourceResult is the result of resources/read. The bytes of its contents stay encoded.
type resourceResult struct {
	Contents []json.RawMessage `json:"contents"`
	Meta     json.RawMessage   `json:"_meta,omitempty"`
}

func (r *resourceResult) check() error {
	if r.Meta = foreign(r.Meta); r.Contents == nil {
		return errMember
	}
	for _, raw := range r.Contents {
		var c struct {
			URI  string          `json:"uri"`
			MIME string          `json:"mimeType"`
			Text json.RawMessage `json:"text"`
			Blob json.RawMessage `json:"blob"`
		}
		if strictjson.Unmarshal(raw, &c) != nil || c.URI == "" || isText(c.Text) == isText(c.Blob) ||
			c.Text != nil && c.Blob != nil {
			return errMember
		}
	}
	return nil
}

// isText reports whether JSON is a string.
func isText(value json.RawMessage) bool { return len(value) > 0 && value[0] == '"' }

// maxValues is the maximum number of values of a completion (2025-11-25, Completion, "Completion Results").
const maxValues = 100

// completeResult is the result of completion/complete.
type completeResult struct {
	Completion *struct {
		Values []string    `json:"values"`
		Total  json.Number `json:"total,omitempty"`
		More   bool        `json:"hasMore,omitempty"`
	} `json:"completion"`
	Meta json.RawMessage `json:"_meta,omitempty"`
}

func (r *completeResult) check() error {
	if r.Meta = foreign(r.Meta); r.Completion == nil || r.Completion.Values == nil {
		return errMember
	}
	if c := r.Completion; len(c.Values) > maxValues {
		c.Values, c.More = c.Values[:maxValues], true
	}
	return nil
}

// argumentsOf checks arguments, which must be an object in MCP.
func argumentsOf(text []byte) (json.RawMessage, error) {
	if len(text) == 0 {
		return json.RawMessage("{}"), nil
	}
	r := strictjson.Get()
	defer r.Release()
	if err := r.Read(text, strictjson.Options{Keep: true, Depth: 1}); err != nil {
		return nil, invalidArguments(fmt.Sprintf("args_json %v", err))
	}
	if r.Root().Kind() != strictjson.Object {
		return nil, invalidArguments("args_json is not a JSON object")
	}
	return text, nil
}
