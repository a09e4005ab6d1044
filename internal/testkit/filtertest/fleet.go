package filtertest

import "github.com/capgate/capgate/router"

// Fleet returns the only fleet of a router with a minimal configuration.
func Fleet(cfg router.FleetConfig) *router.Fleet {
	if cfg.Capability == "" {
		cfg.Capability = "weather"
	}
	table, err := router.NewTable(router.Config{Fleets: []router.FleetConfig{cfg}}, nil)
	if err != nil {
		panic(err) // the test's configuration is valid
	}
	return router.New(table).Table().Fleet(cfg.Capability)
}
