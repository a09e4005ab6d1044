package cli

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/capgate/capgate/internal/config"
)

// overrides are the fields that a command line or the environment may change. The zero
// value changes none.
type overrides struct {
	listen, admin, redis, level *string

	insecure *bool
}

func (o overrides) apply(cfg *config.Config) error {
	for value, field := range map[*string]*string{o.listen: &cfg.Listen, o.admin: &cfg.Admin} {
		if value != nil && *value != "" {
			*field = *value
		}
	}
	if o.insecure != nil && *o.insecure {
		if cfg.Authenticates() {
			return errors.New("admin-insecure: operators in the configuration says who may use the admin API; leave out " +
				"one of the two")
		}
		cfg.Operators.Insecure = true
	}
	if o.redis != nil && *o.redis != "" {
		if wrong := config.CheckRedis(*o.redis); wrong != "" {
			return fmt.Errorf("redis: %s", wrong)
		}
		cfg.Redis.URL = *o.redis
	}
	if o.level == nil || *o.level == "" {
		return nil
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(*o.level)); err != nil {
		return fmt.Errorf("log-level %q: want debug, info, warn or error", *o.level)
	}
	cfg.Log.Level = level
	return nil
}
