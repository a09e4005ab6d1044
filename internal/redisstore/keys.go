package redisstore

import "strings"

// Every key, its type, its time to live and its hash tag. All begin with Config.Prefix,
// "cg:"; the braces are part of the key.
//
//	key                       type     TTL        what
//	{registry}:leases         hash     none       "capability addr" → lease, TTL in ms, JSON of one registration
//	{registry}:ends           sorted   none       the same fields by when they end, ms
//	{registry}:ended          sorted   none       fields that ended in the last two minutes, by when, ms
//	{registry}:state          hash     none       epoch and version of leases; when they were swept, and manifests tidied, ms
//	{registry}:manifests      hash     none       SHA-256 → text of a manifest that leases name; deleted within a minute or so after the last of them
//	{health}:roll             sorted   24h        live replicas by the time of their last beat; the dead are taken off
//	{health}:digests          hash     24h        when each of them beat last, and what it says of its probes
//	{health}:epoch            string   24h        changes when the roll was lost
//	{health:N}:page           hash     24h        N from 0 to 15: votes on backends, and the page's version; written again hourly
//	{TENANT:pin:CAP:SUM}      string   session_ttl  "moves since addr maker,user": the backend of the session whose id has that digest, and the replica that may have used it, "+" for several; renewed by use
//	{TENANT:artifact:CAP:SUM} string   artifact_ttl addr: the backend that has the artifact whose id has that digest
//	{artifacts:CAP:SUM}:first string   artifact_ttl tenant: the first that was given that artifact, "" if that was deleted since: it stays nobody's; only where there are tenants
//	{drains}:backends         hash     none       "capability addr" → since when drained, and when a replica had it last, ms; gone an hour after
//	{drains}:calls            hash     none       replica → when it reported, ms, and the calls that it has at drained backends; gone after 15 s
//	{drains}:ended            sorted   none       fields whose drain was ended in the last hour, by when, ms: who has not heard does not give them back
//	{drains}:state            hash     none       epoch: another one when everything was lost
//	{slots:capability:addr}   hash     5 s        replica → places at that backend, calls that wait, since when, when said, until when, number
//	{TENANT:policy}:rules     hash     none       user, agent, capability, tool → JSON of a rule; without a tenant the global ones
//	{TENANT:policy}:names     sorted   none       the same fields, all with score 0, to be read in pages
//	{TENANT:policy}:about:C:T set      none       those of these fields whose capability and tool are exactly C and T
//	{TENANT:candidates}:…     the same of rules that are candidates
//	{policies}:tenants        set      none       who has, or had, rules
//	{catalog}:state           hash     none       epoch: another one when everything was lost; version: one more with each change of a capability's tools
//	{catalog}:changes         sorted   none       capabilities by the version that changed them last
//	{catalog}:accepted:CAP    hash     none       tool → hash of the description and schema that were accepted, and " gone" where the tool is absent: the tools that are known, or were
//	{catalog}:set:CAP         string   none       what the capability's discovery tool answered
//	{catalog}:about:CAP       hash     none       sum: SHA-256 of set; ok, failed: when a discovery was, ms; error: why the last one failed
//	{catalog}:turns           hash     none       capability → "turn until began", ms: who discovers its tools, or did last
//	{policies}:version        string   none       how often rules have changed
//	{policies}:recent         sorted   24h        tenant, user, agent, capability, tool of calls that were decided on last, by about when, ms
//	{TENANT:approvals}:record:ID    hash   to its end and 1 h  an approval: what it holds for, its state, what an approver sees
//	{TENANT:approvals}:call:SUM     string to its end          id of the approval that calls of that digest get
//	{TENANT:approvals}:session:SUM  string as was answered     "approved id" or "denied id": what holds for calls of that digest in a session
//	{TENANT:approvals}:open         sorted 2 times their TTL and 1 h  ids of those that are pending or approved, by when that ends, ms
//	{TENANT:approvals}:pending      sorted the same            ids of those that are pending, by when they were asked for, ms
//	{TENANT:approvals}:index        sorted the same            "TIME:ID" of all, the newest first, with score 0, to be read in pages
//	{TENANT:approvals}:events       stream 24h                 kind and id of what happened to them; about the last 10,000
//	{approvals}:key           string   none       what configurations of calls are hashed under, where there is no approvals.key_file: 32 bytes
//	{TENANT:limits}:rate:PER:CAP:TOOL:VALUE    string until full  tokens of calls per second, and when they were so many, ms
//	{TENANT:limits}:day:PER:CAP:TOOL           hash   to midnight UTC  period: which day; value → calls of it; 10,000 values at most, the others share one
//	{TENANT:limits}:month:PER:CAP:TOOL         hash   to the month's end  the same of the month
//	{TENANT:limits}:places:PER:CAP:TOOL:VALUE  hash   5 s          replica → places for calls at once, until when it wants more, until when it has them, number
//	{TENANT:limits}:UID:…     the same of tenants in Redis: one that gets the id of another begins anew
//	{TENANT:idempotency}:record:SUM hash   idempotency.ttl  the call of an idempotency key: state, print (keyed hash of what was asked), token of who carries it out, until when it holds without a word, ms, answer, encrypted
//	{TENANT:idempotency}:index      sorted the longest of those  digests of the tenant's keys, by when they are forgotten, ms
//	{engines:turns:ENGINE}:state      hash     1 h and 2 leases  whose turn it is: score of the last turn, last number, when the last step was, ms; of:ID → that ticket's member of the line
//	{engines:turns:ENGINE}:held       sorted   the same   the ticket that has the turn, by until when, ms; or "lost": Redis has lost it
//	{engines:turns:ENGINE}:line       sorted   the same   "TENANT:SEQ:ID" of tickets that wait, with score 0
//	{engines:turns:ENGINE}:alive      sorted   the same   the same tickets by until when they wait without a word, ms
//	{engines:turns:ENGINE}:tenants    sorted   the same   tenants that wait, by their score: the least is next
//	{engines:turns:ENGINE}:served     sorted   the same   tenants that do not, by theirs; 1,000 at most
//	{engines:turns:ENGINE}:agent      string   its lease  "ID who": the claim that has the engine's lease
//	{TENANT:question:ENGINE:SUM}      string to its end      id of the approval that an engine's own is
//	{engines:session:FLEET:SUM}:owner string 90 days, renewed by use  tenant that opened the session of an engine whose id has that digest; "" if that was deleted since: it stays nobody's; only where there are tenants
//	{webhooks}:cursors        hash     none       tenant → id of the last of its events of approvals that was gathered to be told
//	{webhooks}:due            sorted   none       ids of events to be told, by when, or by when who does so loses them, ms; 10,000 at most
//	{webhooks}:entries        hash     none       the same ids → tenant, approval, kind, when, ms
//	{webhooks}:claims         hash     none       the same ids → "attempts lease"
//	{webhooks}:dead           sorted   none       ids of those that could not be told, by when that was given up, ms; the newest 1,000
//	{webhooks}:letters        hash     none       these ids → what entries has, attempts, why
//	{TENANT:tenant}:record    hash     none       a tenant: uid, name, disabled, capabilities, limits as JSON, created, updated, version
//	{TENANT:tenant}:keys      sorted   none       ids of its API keys, all with score 0, to be read in pages
//	{key:ID}:record           hash     30 days after its end  an API key: tenant and uid of that, hash of the secret, scopes, asserts, when it ends, which one replaces it
//	{tenants}:index           sorted   none       ids of tenants, all with score 0, to be read in pages
//	{signing}:key             string   none       what replicas sign URLs with, where no file has a key: 32 bytes
//	{tenants}:version         string   none       how often a tenant or a key has changed
//
// Where there are store keys, what allows something carries an HMAC (seals.go): the field seal of approvals, tenants and API
// keys, answer_seal of answered approvals, "seal" in a rule's JSON, a word behind an accepted hash and a session's answer, and
// what follows a dot behind the signing key.
//
// What of this goes with a tenant that is deleted: erase.go. What is kept of a tenant's own has the tenant as the first word between the braces. What has
// not is the installation's, and no caller sees any of it as it is: who serves (registry,
// health, drains, slots, engines), what there is to call (catalog: each tenant sees what it is granted of
// it), who there is (tenants, key, by which a tenant is found), whose a file is (artifacts: nobody else is told of it), and what replicas and the
// webhook's receiver, which is the operator's, are told of all tenants (policies, webhooks).
// The same goes for caches in memory, and for questions that calls ask together.
//
// Channels, which have no braces as a Cluster publishes everywhere:
//
//	channel                   what
//	registry                  empty: leases have changed
//	health                    changes of pages; replicas that leave
//	sessions                  JSON: a session and its new pin
//	drains                    empty: backends were drained, or are no more
//	policies                  version, tenant, user, agent, capability, tool: a rule that was set or deleted
//	tenants                   version, tenant, key: one of the two that has changed
//	approvals                 tenant, id, what happened, and the digest of the session that an answer holds for: an approval's event
//	idempotency               digest of a key whose call has ended
//	turns                     id of a ticket whose turn has come, or of a claim that was taken over
//	catalog                   empty: what is known of tools has changed
//	slots                     "replica capability": the replica begins to wait for a place, or gave one back that others wait for

// tag is the part of a key that says on which node of a Cluster it is. Where the data
// belongs to a tenant, the tenant is its first word.
type tag []string

// key is the name of what is kept under tag. All words may be anything.
func (c client) key(t tag, rest ...string) string {
	name := c.store.cfg.Prefix + "{" + words(t) + "}"
	if len(rest) > 0 {
		name += ":" + words(rest)
	}
	return name
}

// channel is the name of a channel.
func (c client) channel(name ...string) string { return c.store.cfg.Prefix + words(name) }

// words joins words so that no two lists look the same, and no word ends the tag.
func words(all []string) string {
	escaped := make([]string, len(all))
	for i, w := range all {
		escaped[i] = escaper.Replace(w)
	}
	return strings.Join(escaped, ":")
}

// parseWords takes n words apart that words joined.
func parseWords(joined string, n int) ([]string, bool) {
	all := strings.Split(joined, ":")
	for i := range all {
		all[i] = unescaper.Replace(all[i])
	}
	return all, len(all) == n && words(all) == joined
}

var unescaper = strings.NewReplacer("%25", "%", "%3A", ":", "%7B", "{", "%7D", "}")

var escaper = strings.NewReplacer("%", "%25", ":", "%3A", "{", "%7B", "}", "%7D")
