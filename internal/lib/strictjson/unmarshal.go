package strictjson

import "github.com/segmentio/encoding/json"

// Unmarshal decodes one JSON value that has one reading. A field is set by its exact name: encoding/json also takes a
// name in another case, which other readers of the same text ignore. Unknown names are ignored.
func Unmarshal(text []byte, v any) error { return unmarshal(text, v, 0) }

// UnmarshalKnown is Unmarshal that rejects unknown names. The error may quote them.
func UnmarshalKnown(text []byte, v any) error { return unmarshal(text, v, json.DisallowUnknownFields) }

func unmarshal(text []byte, v any, flags json.ParseFlags) error {
	if err := Check(text); err != nil {
		return err
	}
	_, err := json.Parse(text, v, flags|json.DontMatchCaseInsensitiveStructFields)
	return err
}
