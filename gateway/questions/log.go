package questions

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/capgate/capgate/internal/lib/plainjson"
)

// Level is the severity of a log message. The zero value means none.
type Level uint8

// Lowest is the level of all log messages, debug.
const Lowest Level = 1

// levels has the words of the levels, the least severe first (2025-11-25, Logging, "Log Levels").
func levels() []string {
	return []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
}

// LevelOf returns the level with a name; 0 means that there is none.
func LevelOf(name string) Level { return Level(slices.Index(levels(), name) + 1) }

// String returns the name of a level; empty means none.
func (l Level) String() string {
	if l == 0 || int(l) > len(levels()) {
		return ""
	}
	return levels()[l-1]
}

// Bounds of a log message.
const (
	MaxLog    = 16 << 10 // bytes of its params
	maxLogger = 256      // bytes of the name of its logger
)

// ReadLog reads the params of a log message, and returns those that pass with its level. The params must be unambiguous
// JSON.
func ReadLog(params json.RawMessage) (json.RawMessage, Level, error) {
	if len(params) > MaxLog {
		return nil, 0, fmt.Errorf("the log message has more than %d bytes", MaxLog)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(params, &members) != nil {
		return nil, 0, errors.New("the params of the log message are not an object")
	}
	var word string
	var logger *string
	if json.Unmarshal(members["level"], &word) != nil || LevelOf(word) == 0 {
		return nil, 0, errors.New("the log message has no level")
	}
	if raw, ok := members["logger"]; ok && (json.Unmarshal(raw, &logger) != nil || logger != nil &&
		len(*logger) > maxLogger) {
		return nil, 0, errors.New("the logger of the log message is not a short string")
	}
	if members["data"] == nil {
		return nil, 0, errors.New("the log message has no data")
	}
	text, err := plainjson.Marshal(struct {
		Level  string          `json:"level"`
		Logger *string         `json:"logger,omitempty"`
		Data   json.RawMessage `json:"data"`
	}{word, logger, members["data"]})
	return text, LevelOf(word), err
}
