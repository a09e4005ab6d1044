package agent

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// maxFlood is the size of the longest answer, in KiB.
const maxFlood = 64 << 10

// failure ends a message without an answer.
type failure struct{ code, text string }

func (f failure) Error() string { return f.text }

// turn is the processing of one message.
type turn struct {
	*agent
	m        *openparallaxv1.ProcessRequest
	thoughts []*openparallaxv1.Thought
	tokens   int32
}

// process answers a message. It fails if the stream is lost.
func (a *agent) process(m *openparallaxv1.ProcessRequest) error {
	t := &turn{agent: a, m: m}
	answer, err := t.think()
	var failed failure
	if errors.As(err, &failed) {
		report := &openparallaxv1.AgentError{SessionId: m.GetSessionId(), MessageId: m.GetMessageId(),
			Code: failed.code, Message: failed.text, Recoverable: true}
		return a.send(&openparallaxv1.AgentEvent{Event: &openparallaxv1.AgentEvent_AgentError{AgentError: report}})
	}
	if err != nil {
		return err
	}
	complete := &openparallaxv1.AgentEvent_ResponseComplete{ResponseComplete: &openparallaxv1.AgentResponseComplete{
		SessionId: m.GetSessionId(), MessageId: m.GetMessageId(), Content: answer, Thoughts: t.thoughts,
		Usage: &openparallaxv1.TokenUsage{InputTokens: int32(len(strings.Fields(m.GetContent()))),
			OutputTokens: t.tokens},
	}}
	return a.send(&openparallaxv1.AgentEvent{Event: complete})
}

// think follows the script.
func (t *turn) think() (answer string, err error) {
	verb, rest, _ := strings.Cut(t.m.GetContent(), ":")
	rest = strings.TrimSpace(rest)
	switch verb {
	case "tool":
		name, args, _ := strings.Cut(rest, " ")
		return t.answerWith(t.tool(name, args))
	case "approve":
		return t.answerWith(t.tool("execute_command", object("command", rest)))
	case "load":
		return t.answerWith(t.load(strings.Fields(rest)))
	case "remember":
		flush := &openparallaxv1.AgentEvent_MemoryFlush{MemoryFlush: &openparallaxv1.MemoryFlush{Content: rest}}
		err := t.send(&openparallaxv1.AgentEvent{Event: flush})
		return t.answerWith("I will remember", err)
	case "delegate":
		name, err := t.tool("create_agent", object("task", rest))
		if err != nil || t.failed() {
			return t.answerWith(name, err)
		}
		return t.answerWith(t.tool("agent_result", object("name", name)))
	case "flood":
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 || n > maxFlood {
			return "", failure{"LLM_CALL_FAILED", fmt.Sprintf("%.32q is not a number up to %d", rest, maxFlood)}
		}
		for range n {
			if err := t.say(strings.Repeat("z", 1<<10)); err != nil {
				return "", err
			}
		}
		return "that was all", nil
	case "fail":
		return "", failure{"LLM_CALL_FAILED", "the model does not answer"}
	}
	return t.answerWith("You said: "+t.m.GetContent(), nil)
}

// answerWith sends an answer word by word.
func (t *turn) answerWith(answer string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	for word := range strings.SplitAfterSeq(answer, " ") {
		if err := t.say(word); err != nil {
			return "", err
		}
	}
	return answer, nil
}

func (t *turn) say(token string) error {
	t.tokens++
	emitted := &openparallaxv1.LLMTokenEmitted{SessionId: t.m.GetSessionId(), MessageId: t.m.GetMessageId(),
		Text: token}
	return t.send(&openparallaxv1.AgentEvent{
		Event: &openparallaxv1.AgentEvent_LlmTokenEmitted{LlmTokenEmitted: emitted},
	})
}

// tool makes the engine run a tool, and returns the result.
func (t *turn) tool(name, args string) (string, error) {
	id := rand.Text()
	err := t.send(&openparallaxv1.AgentEvent{
		Event: &openparallaxv1.AgentEvent_ToolProposal{ToolProposal: &openparallaxv1.ToolCallProposed{
			SessionId: t.m.GetSessionId(), MessageId: t.m.GetMessageId(), CallId: id, ToolName: name,
			ArgumentsJson: args,
		}},
	})
	if err != nil {
		return "", err
	}
	for d := range t.results {
		if r := d.GetToolResult(); r.GetCallId() == id {
			summary := "done"
			if r.GetIsError() {
				summary = "failed"
			}
			t.thoughts = append(t.thoughts, &openparallaxv1.Thought{Stage: "tool_call", Summary: summary})
			return r.GetContent(), nil
		}
	}
	return "", errors.New("the engine has ended")
}

// failed reports whether the last tool failed.
func (t *turn) failed() bool { return t.thoughts[len(t.thoughts)-1].GetSummary() == "failed" }

// load requests the tools of some groups.
func (t *turn) load(groups []string) (names string, err error) {
	ask := &openparallaxv1.ToolDefsRequest{Groups: groups}
	err = t.send(&openparallaxv1.AgentEvent{Event: &openparallaxv1.AgentEvent_ToolDefsRequest{ToolDefsRequest: ask}})
	if err != nil {
		return "", err
	}
	for d := range t.results {
		if defs := d.GetToolDefs(); defs != nil {
			for _, def := range defs.GetTools() {
				names += def.GetName() + " "
			}
			return strings.TrimSpace(names), nil
		}
	}
	return "", errors.New("the engine has ended")
}

// object returns a JSON object with one string.
func object(name, value string) string {
	o, _ := json.Marshal(map[string]string{name: value})
	return string(o)
}
