package redisstore

import "strings"

// Keys and channels. Each key is listed with its type, its time to live and its hash tag. Every name begins with
// Config.Prefix, "cg:"; the braces are part of the key. CAP is a capability, SUM the digest of an id, ms are times in
// milliseconds since 1970 by Redis' clock.
//
// Backends and their health:
//
//	{registry}:leases         hash     none    "capability addr" → lease, TTL in ms, JSON of one registration
//	{registry}:ends           sorted   none    the same fields by their end, ms
//	{registry}:ended          sorted   none    fields that ended in the last two minutes, by their end, ms
//	{registry}:state          hash     none    epoch and version of leases; ms of their last sweep, and of the last
//	                                           tidying of manifests
//	{registry}:manifests      hash     none    SHA-256 → text of a manifest that leases name; deleted about a minute
//	                                           after the last of these leases
//	{health}:roll             sorted   24h     live replicas by their last heartbeat; dead ones are removed
//	{health}:digests          hash     24h     replica → its last heartbeat, and the digest of its probes
//	{health}:epoch            string   24h     changes when the membership was lost
//	{health:N}:page           hash     24h     shard N, 0 to 15: observations of backends, and the shard's version;
//	                                           rewritten hourly
//	{drains}:backends         hash     none    "capability addr" → start of the drain, and ms when a replica reported
//	                                           it last; deleted an hour after that
//	{drains}:calls            hash     none    replica → ms of its report, and its calls at drained backends;
//	                                           deleted after 15 s
//	{drains}:ended            sorted   none    fields whose drain ended in the last hour, by ms: a replica that missed
//	                                           the end does not restore them
//	{drains}:state            hash     none    epoch: changes when everything was lost
//	{slots:capability:addr}   hash     5 s     replica → permits at that backend, waiting calls, start of the wait,
//	                                           ms of the report and of its end, sequence number
//
// Sessions and artifacts:
//
//	{TENANT:pin:CAP:SUM}      string   session_ttl   "moves since addr maker,user": the backend of a session, and the
//	                                           replica that may have used it ("+": several); renewed by use
//	{TENANT:artifact:CAP:SUM} string   artifact_ttl  addr: the backend that has the artifact
//	{artifacts:CAP:SUM}:first string   artifact_ttl  the tenant that got the artifact first; "" after that tenant was
//	                                           deleted, so that no other one gets it. Only with tenants
//
// Rules and the catalog:
//
//	{TENANT:policy}:rules     hash     none    user, agent, capability, tool → JSON of a rule; global rules: no tenant
//	{TENANT:policy}:names     sorted   none    the same fields, all with score 0, for pages
//	{TENANT:policy}:about:C:T set      none    those of these fields whose capability and tool are exactly C and T
//	{TENANT:candidates}:…                      the same for candidate rules
//	{policies}:tenants        set      none    tenants that have, or had, rules
//	{policies}:version        string   none    number of changes of rules
//	{policies}:epoch          string   none    names the rules; an emptied Redis gets another with its first change
//	{policies}:lost           string   none    epoch whose rules a replica found lost
//	{policies}:accepted       string   none    the last 16 epochs whose loss an operator has accepted
//	{policies}:recent         sorted   24h     tenant, user, agent, capability, tool of the latest decisions, by about
//	                                           their ms
//	{catalog}:state           hash     none    epoch: changes when everything was lost; version: number of changes
//	{catalog}:changes         sorted   none    capabilities by the version of their last change
//	{catalog}:accepted:CAP    hash     none    tool → accepted hash of its description and schema, and " gone"
//	                                           while the tool is absent
//	{catalog}:set:CAP         string   none    answer of the capability's discovery tool
//	{catalog}:about:CAP       hash     none    sum: SHA-256 of set; ok, failed: ms of the last discoveries; error: cause
//	                                           of the last failure
//	{catalog}:versions:CAP    hash     90 days tool → JSON of its accepted version, for comparison; renewed by a start
//	{catalog}:turns           hash     none    capability → "lease until began", ms: the current or last discovery
//
// Approvals and their webhook:
//
//	{TENANT:approvals}:record:ID    hash    its end and 1 h  an approval: its binding, its state, its preview
//	{TENANT:approvals}:call:SUM     string  its end          id of the approval that calls of that digest get
//	{TENANT:approvals}:session:SUM  string  the answer's     "approved id" or "denied id" for calls of that digest in a
//	                                                         session
//	{TENANT:approvals}:open         sorted  2 TTLs and 1 h   ids that are pending or approved, by the end of that, ms
//	{TENANT:approvals}:pending      sorted  2 TTLs and 1 h   ids that are pending, by their creation, ms
//	{TENANT:approvals}:index        sorted  2 TTLs and 1 h   "TIME:ID" of all, the newest first, with score 0, for pages
//	{TENANT:approvals}:events       stream  24h              kind and id of events; about the last 10,000
//	{approvals}:key                 string  none             hash key of settings without approvals.key_file, 32 bytes
//	{webhooks:DESTINATION}:…                                 the same keys as below for each of approvals.notices
//	{webhooks}:cursors              hash    none             tenant → id of its last event that is in the outbox
//	{webhooks}:due                  sorted  none             ids of events by their due time or the end of their
//	                                                         lease, ms; at most 10,000
//	{webhooks}:entries              hash    none             the same ids → tenant, approval, kind, ms
//	{webhooks}:claims               hash    none             the same ids → "attempts lease"
//	{webhooks}:dead                 sorted  none             ids of dead letters by their death, ms; the newest 1,000
//	{webhooks}:letters              hash    none             these ids → the entry, attempts, reason
//
// Limits and idempotency:
//
//	{TENANT:limits}:rate:PER:CAP:TOOL:VALUE    string  until full  tokens of the bucket, and their ms; with a debt
//	                                                               0, and when it is paid
//	{TENANT:limits}:spills:PER:CAP:TOOL:VALUE  string  until full  tokens that did not fit into that bucket
//	{TENANT:limits}:day:PER:CAP:TOOL           hash    the day     period: the day (UTC); value → its calls; at most
//	                                                               10,000 values, further ones share one
//	{TENANT:limits}:month:PER:CAP:TOOL         hash    the month   the same for the month
//	{TENANT:limits}:places:PER:CAP:TOOL:VALUE  hash    5 s         replica → permits for concurrent calls, ends of its
//	                                                               demand and of its permits, sequence number
//	{TENANT:limits}:UID:…                                          the same for tenants in Redis: a tenant that gets
//	                                                               the id of a deleted one begins anew
//	{TENANT:idempotency}:record:SUM  hash    idempotency.ttl   state; print: keyed hash of the request; token of the
//	                                                           claim; until: its end, ms; answer, or the call of a task over
//	                                                           MCP, encrypted
//	{TENANT:idempotency}:index       sorted  the longest ttl   digests of the tenant's keys by their end, ms
//
// Engines:
//
//	{engines:turns:ENGINE}:state      hash    1 h and 2 leases  score of the last turn, last sequence number, ms of the
//	                                                            last step; of:ID → the ticket's member of the queue
//	{engines:turns:ENGINE}:held       sorted  the same          the ticket that has the turn, by the end of that, ms; or
//	                                                            "lost": Redis has lost it
//	{engines:turns:ENGINE}:line       sorted  the same          "TENANT:SEQ:ID" of waiting tickets, with score 0
//	{engines:turns:ENGINE}:alive      sorted  the same          the same tickets by their end without a renewal, ms
//	{engines:turns:ENGINE}:tenants    sorted  the same          waiting tenants by their score: the least is next
//	{engines:turns:ENGINE}:served     sorted  the same          tenants that do not wait, by their score; at most 1,000
//	{engines:turns:ENGINE}:agent      string  its lease         "ID who": the claim that has the engine's lease
//	{TENANT:question:ENGINE:SUM}      string  its end           id of the approval for an engine's own question
//	{engines:session:FLEET:SUM}:owner string  90 days, renewed by use  the tenant of an engine's session; "" after that
//	                                                            tenant was deleted, so that no other one gets it. Only
//	                                                            with tenants
//
// What happened lately; the access log and the audit log have everything:
//
//	{recent}:calls            hash     24h     id → JSON of a call; as many as calls.keep
//	{recent}:order            sorted   24h     "FLOW:TIME:ID" of the same, with score 0; a FLOW is a tenant and whether
//	                                           its calls ended well
//	{recent}:flows            sorted   24h     these FLOWs by the number of their calls
//	{recent}:minute:N         hash     20 min  calls, refusals and errors that ended in a minute, of all and by tenant
//	{recent}:replicas         hash     2 min   replica → ms, JSON of what it says of itself
//	{recent}:changes          stream   none    JSON of changes by operators; about the last 1,000
//
// Tenants and API keys:
//
//	{TENANT:tenant}:record    hash     none    uid, name, disabled, capabilities, limits (JSON), created,
//	                                           updated, version
//	{TENANT:tenant}:keys      sorted   none    ids of the tenant's API keys, all with score 0, for pages
//	{key:ID}:record           hash     30 days after its end  tenant and its uid, hash of the secret, scopes, asserts,
//	                                           end, successor
//	{tenants}:index           sorted   none    ids of tenants, all with score 0, for pages
//	{tenants}:version         string   none    number of changes of tenants and keys
//	{signing}:key             string   none    key for signed URLs, unless a file has one: 32 bytes
//
// Sessions of people:
//
//	{people}:key              string   none    key that seals cookies, unless a file has one: 32 bytes
//	{people}:state            hash     none    epoch: changes when everything was lost; version: number of revocations
//	{people}:revoked          sorted   none    "session UNTIL ID" and "name UNTIL BEFORE NAME": revocations by their
//	                                           version; at most 50,000 of each kind
//	{people}:ends             sorted   none    the same by UNTIL, ms; removed after that
//	{people}:names            hash     none    name of a person or key → its revocation of all sessions
//	{people}:owners           hash     none    revocation of a session → its owner
//	{people}:shares           hash     none    owner → number of its revocations; at most four times the free part
//	{people}:issued           hash     none    id → JSON of an issued session, without its secret; at most 2,000
//	{people}:list             sorted   none    the same ids by the end of the session, ms; removed after that
//
// With store keys, records that grant something carry an HMAC (signatures.go): the field seal of approvals, tenants
// and API keys; answer_seal of answered approvals; "seal" in a rule's JSON; a word after an accepted hash and after a
// session's answer; the text after a dot after the signing key, and after that of cookies.
//
// A tenant's own data has the tenant as the first word between the braces, and is deleted with it (tenants_erase.go).
// The other keys are the installation's, and no caller sees them as they are: servers (registry, health, drains,
// slots, engines), capabilities (catalog: each tenant sees those that it is granted), callers (tenants, key), owners
// of files (artifacts: known to the owner only), and events of all tenants for replicas and for the operator's webhook
// (policies, webhooks), and people with sessions (people). The same division holds for caches in memory, and for reads that calls share.
//
// Channels have no braces, as a Cluster publishes everywhere:
//
//	registry       empty: leases have changed
//	health         changes of shards; replicas that leave
//	calls          JSON: calls that have ended
//	sessions       JSON: a session and its new pin
//	drains         empty: drains have begun or ended
//	policies       version, tenant, user, agent, capability, tool: a rule that was set or deleted
//	people         empty: sessions of people were revoked
//	tenants        version, tenant, key: the tenant or the key that has changed
//	approvals      tenant, id, event, digest of the session that an answer holds for: an event of an approval
//	idempotency    digest of a key whose call has ended
//	turns          id of a ticket that got the turn, or of a claim that was taken over
//	catalog        empty: the catalog has changed
//	slots          "replica capability": the replica begins to wait for a permit, or returned one that others wait for

// tag is the part of a key that selects its node of a Cluster. In a tenant's data its first word is the tenant.
type tag []string

// key returns the name of a key under tag. The words may be any text.
func (c client) key(t tag, rest ...string) string {
	name := c.store.cfg.Prefix + "{" + joinWords(t) + "}"
	if len(rest) > 0 {
		name += ":" + joinWords(rest)
	}
	return name
}

// channel returns the name of a channel.
func (c client) channel(name ...string) string { return c.store.cfg.Prefix + joinWords(name) }

// joinWords joins words unambiguously: no two lists give the same text, and no word ends the tag.
func joinWords(all []string) string {
	escaped := make([]string, len(all))
	for i, w := range all {
		escaped[i] = escaper.Replace(w)
	}
	return strings.Join(escaped, ":")
}

// splitWords splits a text of joinWords into n words.
func splitWords(joined string, n int) ([]string, bool) {
	all := strings.Split(joined, ":")
	for i := range all {
		all[i] = unescaper.Replace(all[i])
	}
	return all, len(all) == n && joinWords(all) == joined
}

var unescaper = strings.NewReplacer("%25", "%", "%3A", ":", "%7B", "{", "%7D", "}")

var escaper = strings.NewReplacer("%", "%25", ":", "%3A", "{", "%7B", "}", "%7D")
