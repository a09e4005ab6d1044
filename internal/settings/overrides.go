package settings

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/capgate/capgate/internal/config"
)

// Overrides are the fields that a command line or the environment may change. The zero
// value changes none.
type Overrides struct {
	Listen, Admin, Redis, Level *string

	Insecure *bool
}

// Apply changes the fields of a configuration. The error names the option that is invalid.
func (o Overrides) Apply(cfg *config.Config) error {
	for value, field := range map[*string]*string{o.Listen: &cfg.Listen, o.Admin: &cfg.Admin} {
		if value != nil && *value != "" {
			*field = *value
		}
	}
	if o.Insecure != nil && *o.Insecure {
		if cfg.Authenticates() {
			return errors.New("admin-insecure: operators in the configuration says who may use the admin API; leave " +
				"out one of the two")
		}
		cfg.Operators.Insecure = true
	}
	if o.Redis != nil && *o.Redis != "" {
		if wrong := config.CheckRedis(*o.Redis); wrong != "" {
			return fmt.Errorf("redis: %s", wrong)
		}
		cfg.Redis.URL = *o.Redis
	}
	if o.Level == nil || *o.Level == "" {
		return nil
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(*o.Level)); err != nil {
		return fmt.Errorf("log-level %q: want debug, info, warn or error", *o.Level)
	}
	cfg.Log.Level = level
	return nil
}
