package questions

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
)

// CheckAnswer returns an error if a result is not an answer to a question of this kind. The answer must be
// unambiguous JSON within its bounds; a member counts by its exact name.
func (k Kinds) CheckAnswer(result json.RawMessage) error {
	most := MaxAnswer
	if k == Roots {
		most = MaxForm
	}
	if len(result) > most {
		return fmt.Errorf("the answer has more than %d bytes", most)
	}
	reader := strictjson.Get()
	defer reader.Release()
	if err := reader.Read(result, strictjson.Options{Keep: true, Values: maxValues}); err != nil {
		return errors.New("the answer " + err.Error())
	}
	root := reader.Root()
	if root.Kind() != strictjson.Object {
		return errors.New("the answer is not an object")
	}
	member := func(name string, kind strictjson.Kind) (text string, ok bool) {
		v, ok := root.Get(name)
		if ok = ok && v.Kind() == kind; ok && kind == strictjson.String {
			text = string(v.Bytes())
		}
		return text, ok
	}
	switch {
	case k&Elicitation != 0:
		if action, _ := member("action", strictjson.String); action != "accept" && action != "decline" &&
			action != "cancel" {
			return errors.New("the result of elicitation/create must have an action: accept, decline or cancel")
		}
	case k == Sampling:
		if role, _ := member("role", strictjson.String); role == "" {
			return errors.New("the result of sampling/createMessage must have a role")
		}
	case k == Roots:
		if _, ok := member("roots", strictjson.Array); !ok {
			return errors.New("the result of roots/list must have roots")
		}
	}
	return nil
}

// Asked holds the kinds of the questions in a result, by key.
type Asked map[string]Kinds

// CheckAnswers returns the members of inputResponses that answer these questions. Each of them must be an answer to its
// question. Other members are left out. nil means that none is left.
func (asked Asked) CheckAnswers(responses json.RawMessage) (json.RawMessage, error) {
	return checkAnswers(responses, func(key string) Kinds { return asked[key] })
}

// CheckAnswers returns the members of inputResponses of a call that repeats no other: a server may know its questions
// by their keys alone. Each of them must be an answer to a question of one of the kinds.
func (k Kinds) CheckAnswers(responses json.RawMessage) (json.RawMessage, error) {
	return checkAnswers(responses, func(string) Kinds { return k })
}

// checkAnswers checks the members of inputResponses against the kinds of their keys. 0 leaves a member out.
func checkAnswers(responses json.RawMessage, kindsOf func(key string) Kinds) (json.RawMessage, error) {
	if len(responses) == 0 {
		return nil, nil
	}
	if len(responses) > MaxAnswer {
		return nil, fmt.Errorf("inputResponses has more than %d bytes", MaxAnswer)
	}
	reader := strictjson.Get()
	defer reader.Release()
	if err := reader.Read(responses, strictjson.Options{Keep: true, Values: maxValues}); err != nil {
		return nil, errors.New("inputResponses " + err.Error())
	}
	root := reader.Root()
	if root.Kind() != strictjson.Object {
		return nil, errors.New("inputResponses is not an object")
	}
	kept := map[string]json.RawMessage{}
	for name, v := range root.Members() {
		key := string(name.Bytes())
		kinds := kindsOf(key)
		if kinds == 0 {
			continue
		}
		if len(kept) == MaxMany || len(key) > MaxKey {
			return nil, errors.New("inputResponses has too many members, or too long a name")
		}
		if err := kinds.checkAny(v.Raw()); err != nil {
			return nil, fmt.Errorf("the member %.64q of inputResponses: %w", key, err)
		}
		kept[key] = v.Raw()
	}
	if len(kept) == 0 {
		return nil, nil
	}
	return plainjson.Marshal(kept)
}

// checkAny returns an error if a result is not an answer to a question of one of the kinds.
func (k Kinds) checkAny(result json.RawMessage) (err error) {
	for _, kind := range [...]Kinds{Forms, URLs, Sampling, Roots} {
		if k&kind == 0 {
			continue
		}
		if err = kind.CheckAnswer(result); err == nil {
			return nil
		}
	}
	return err
}
