package app

// features lists the parts of the process in the order in which they are built, apply changes and start. They are
// closed in the opposite order.
func features() []feature {
	return []feature{
		logsFeature(),
		portsFeature(),
		metricsFeature(),
		tracesFeature(),
		auditFeature(),
		storeFeature(),
		recentFeature(),
		historyFeature(),
		limitsFeature(),
		quotasFeature(),
		assertionsFeature(), // before upstreams, which sign their requests
		upstreamsFeature(),
		sourcesFeature(),
		fleetsFeature(),
		catalogFeature(),
		authenticationFeature(),
		clientAddrFeature(),
		operatorsFeature(),
		toolsetsFeature(),
		rulesFeature(),
		shieldsFeature(),
		approvalsFeature(),
		noticesFeature(),
		idempotencyFeature(),
		enginesFeature(),
		drainsFeature(),
		affinityFeature(),
		overloadFeature(),
		collectorFeature(),
		artifactsFeature(),
		mcpFeature(),
		playgroundFeature(),
		summaryFeature(),
		gatewayFeature(),
		healthFeature(), // after the gateway, which has the table of the backends that it probes
		reloadFeature(), // its goroutine changes the others
	}
}
