----------------------------- MODULE Approvals -----------------------------
(***************************************************************************)
(* One approval, the calls that redeem it, and a Redis that fails over.    *)
(* The code: internal/redisstore/approvals*.go (the scripts redeem,        *)
(* release and answer), runReplicated in replicas.go, and the filter       *)
(* gateway/filter/authorize.                                               *)
(*                                                                         *)
(* A server of Redis is the sequence of the values that the record has had *)
(* there. A replica has a prefix of its master's. A server that does not   *)
(* have a prefix, since another one was promoted, copies its master whole. *)
(* Commands are executed at any later time or never, at any server that    *)
(* takes writes; answers get lost.                                         *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Callers,      \* calls that redeem the approval; each has a token of its own
    Servers,      \* the master and its replicas
    None,
    Wait,         \* redis.wait_replicas
    Tries,        \* attempts of one call; one follows another whose answer was lost
    Failovers,    \* failovers and restarts, all together
    \* What is assumed of Redis.
    Promote,      \* "any" server, or one that has all "acknowledged" redemptions
    Fenced,       \* a failover ends the old master and its connections at once
    Durable,      \* a server that restarts has all that it had
    \* What the scripts do.
    Touches,      \* a repeated redemption writes, so that WAIT has something to wait for
    ChecksToken,  \* only its own redemption is released by a call
    ChecksExpiry,
    ChecksState

VARIABLES
    log,          \* server -> the values of the record, the last one is the present one
    follows,      \* server -> its master; itself: it takes writes
    leader,       \* the server that was promoted last
    late,         \* the approval's time is over
    said,         \* what people have answered
    call,         \* caller -> "new", "asking", "waiting" (for replicas), "granted", "running", "ended"
    at,           \* caller -> where it waits: the server, and the length of its log that replicas need
    tries,        \* caller -> attempts
    redeems,      \* caller -> redeem commands in the network
    releases,     \* caller -> release commands in the network
    granted,      \* callers that were told that they have redeemed it
    ran,          \* callers that have run
    overdue,      \* callers that redeemed it after its time
    failovers

vars == <<log, follows, leader, late, said, call, at, tries, redeems, releases, granted, ran, overdue, failovers>>

Record(state, token) == [state |-> state, token |-> token]
Nowhere == [server |-> None, length |-> 0]

Last(s) == log[s][Len(log[s])]
IsPrefix(a, b) == Len(a) <= Len(b) /\ SubSeq(b, 1, Len(a)) = a
Writable(s) == follows[s] = s
Write(s, record) == log' = [log EXCEPT ![s] = Append(@, record)]

Init ==
    /\ leader \in Servers
    /\ log = [s \in Servers |-> <<Record("pending", None)>>]
    /\ follows = [s \in Servers |-> leader]
    /\ late = FALSE
    /\ said = {}
    /\ call = [c \in Callers |-> "new"]
    /\ at = [c \in Callers |-> Nowhere]
    /\ tries = [c \in Callers |-> 0]
    /\ redeems = [c \in Callers |-> 0]
    /\ releases = [c \in Callers |-> 0]
    /\ granted = {}
    /\ ran = {}
    /\ overdue = {}
    /\ failovers = 0

-----------------------------------------------------------------------------
(* People and time *)

Answer(s, state) ==
    /\ Writable(s) /\ Last(s).state = "pending" /\ ~late
    /\ Write(s, Record(state, None))
    /\ said' = said \union {state}
    /\ UNCHANGED <<follows, leader, late, call, at, tries, redeems, releases, granted, ran, overdue, failovers>>

Expire ==
    /\ ~late
    /\ late' = TRUE
    /\ UNCHANGED <<log, follows, leader, said, call, at, tries, redeems, releases, granted, ran, overdue, failovers>>

-----------------------------------------------------------------------------
(* Calls *)

\* The first attempt, or another one after no answer.
Ask(c) ==
    /\ call[c] \in {"new", "asking"} /\ tries[c] < Tries
    /\ call' = [call EXCEPT ![c] = "asking"]
    /\ tries' = [tries EXCEPT ![c] = @ + 1]
    /\ redeems' = [redeems EXCEPT ![c] = @ + 1]
    /\ UNCHANGED <<log, follows, leader, late, said, at, releases, granted, ran, overdue, failovers>>

\* The script redeem. reads: the caller still waits for the answer, and gets it.
Redeem(c, s, reads) ==
    LET r == Last(s)
        again == r.state = "used" /\ r.token = c
        open == r.state = "approved" \/ (~ChecksState /\ r.state = "pending")
        over == late /\ ChecksExpiry /\ r.state \in {"pending", "approved"}
        takes == open /\ ~over
        writes == takes \/ (again /\ Touches)
    IN
    /\ redeems[c] > 0 /\ Writable(s)
    /\ redeems' = [redeems EXCEPT ![c] = @ - 1]
    /\ CASE takes -> Write(s, Record("used", c))
         [] again /\ Touches -> Write(s, r)
         [] over -> Write(s, Record("expired", None))
         [] OTHER -> UNCHANGED log
    /\ overdue' = IF takes /\ late THEN overdue \union {c} ELSE overdue
    /\ IF reads
       THEN /\ call[c] = "asking"
            /\ call' = [call EXCEPT ![c] = IF takes \/ again THEN "waiting" ELSE "ended"]
            /\ at' = IF takes \/ again
                     THEN [at EXCEPT ![c] = [server |-> s, length |-> IF writes THEN Len(log[s]) + 1 ELSE 0]]
                     ELSE at
       ELSE UNCHANGED <<call, at>>
    /\ UNCHANGED <<follows, leader, late, said, tries, releases, granted, ran, failovers>>

\* The replicas that have what a caller wrote.
Copies(c) ==
    LET s == at[c].server IN
    {r \in Servers \ {s} : follows[r] = s /\ IsPrefix(log[r], log[s]) /\ Len(log[r]) >= at[c].length}

\* Enough replicas have it. Without WAIT no replica is asked for.
Acknowledged(c) ==
    /\ call[c] = "waiting" /\ Cardinality(Copies(c)) >= Wait
    /\ call' = [call EXCEPT ![c] = "granted"]
    /\ at' = [at EXCEPT ![c] = Nowhere]
    /\ granted' = granted \union {c}
    /\ UNCHANGED <<log, follows, leader, late, said, tries, redeems, releases, ran, overdue, failovers>>

\* WAIT ends with too few replicas, or with an error; or the call ends before it has started. It does not run.
GiveBack(c) ==
    /\ call[c] \in {"waiting", "granted"}
    /\ call' = [call EXCEPT ![c] = "ended"]
    /\ at' = [at EXCEPT ![c] = Nowhere]
    /\ releases' = [releases EXCEPT ![c] = @ + 1]
    /\ UNCHANGED <<log, follows, leader, late, said, tries, redeems, granted, ran, overdue, failovers>>

\* No answer came to any attempt: the call does not run, and nothing is released.
GiveUp(c) ==
    /\ call[c] = "asking"
    /\ call' = [call EXCEPT ![c] = "ended"]
    /\ UNCHANGED <<log, follows, leader, late, said, at, tries, redeems, releases, granted, ran, overdue, failovers>>

Run(c) ==
    /\ call[c] = "granted"
    /\ call' = [call EXCEPT ![c] = "running"]
    /\ ran' = ran \union {c}
    /\ UNCHANGED <<log, follows, leader, late, said, at, tries, redeems, releases, granted, overdue, failovers>>

\* The script release.
Release(c, s) ==
    LET r == Last(s) IN
    /\ releases[c] > 0 /\ Writable(s)
    /\ releases' = [releases EXCEPT ![c] = @ - 1]
    /\ IF r.state = "used" /\ (r.token = c \/ ~ChecksToken)
       THEN Write(s, Record(IF late THEN "expired" ELSE "approved", None))
       ELSE UNCHANGED log
    /\ UNCHANGED <<follows, leader, late, said, call, at, tries, redeems, granted, ran, overdue, failovers>>

-----------------------------------------------------------------------------
(* Redis *)

Replicate(r) ==
    LET s == follows[r] IN
    /\ s # r /\ log[r] # log[s]
    /\ log' = [log EXCEPT ![r] = IF IsPrefix(@, log[s]) THEN Append(@, log[s][Len(@) + 1]) ELSE log[s]]
    /\ UNCHANGED <<follows, leader, late, said, call, at, tries, redeems, releases, granted, ran, overdue, failovers>>

\* The connections of servers end: WAIT fails there, and their callers give back.
Disconnect(some) ==
    LET lost == {c \in Callers : call[c] = "waiting" /\ at[c].server \in some} IN
    /\ call' = [c \in Callers |-> IF c \in lost THEN "ended" ELSE call[c]]
    /\ at' = [c \in Callers |-> IF c \in lost THEN Nowhere ELSE at[c]]
    /\ releases' = [c \in Callers |-> IF c \in lost THEN releases[c] + 1 ELSE releases[c]]

HasRedemption(s, c) == \E i \in 1..Len(log[s]) : log[s][i] = Record("used", c)

Failover(s) ==
    /\ s # leader /\ failovers < Failovers
    /\ Promote = "acknowledged" => \A c \in granted : HasRedemption(s, c)
    /\ failovers' = failovers + 1
    /\ leader' = s
    /\ IF Fenced
       THEN /\ follows' = [r \in Servers |-> s]
            /\ Disconnect(Servers \ {s})
       ELSE /\ follows' = [follows EXCEPT ![s] = s]
            /\ UNCHANGED <<call, at, releases>>
    /\ UNCHANGED <<log, late, said, tries, redeems, granted, ran, overdue>>

\* A server learns of the failover.
Rejoin(s) ==
    /\ s # leader /\ follows[s] # leader
    /\ follows' = [follows EXCEPT ![s] = leader]
    /\ Disconnect({s})
    /\ UNCHANGED <<log, leader, late, said, tries, redeems, granted, ran, overdue, failovers>>

Restart(s) ==
    /\ ~Durable /\ failovers < Failovers
    /\ failovers' = failovers + 1
    /\ \E n \in 1..(Len(log[s]) - 1) : log' = [log EXCEPT ![s] = SubSeq(@, 1, n)]
    /\ Disconnect({s})
    /\ UNCHANGED <<follows, leader, late, said, tries, redeems, granted, ran, overdue>>

Next ==
    \/ Expire
    \/ \E s \in Servers :
        \/ Answer(s, "approved") \/ Answer(s, "denied")
        \/ Replicate(s) \/ Failover(s) \/ Rejoin(s) \/ Restart(s)
    \/ \E c \in Callers :
        \/ Ask(c) \/ Acknowledged(c) \/ GiveBack(c) \/ GiveUp(c) \/ Run(c)
        \/ \E s \in Servers : Redeem(c, s, TRUE) \/ Redeem(c, s, FALSE) \/ Release(c, s)

Spec == Init /\ [][Next]_vars

Same == Permutations(Callers) \union Permutations(Servers)

-----------------------------------------------------------------------------
(* Promises *)

Once == Cardinality(ran) <= 1
OnlyApproved == ran # {} => "approved" \in said
InTime == ran \intersect overdue = {}

\* Not a promise: the model is of use only if a call can run.
NeverRuns == ran = {}
=============================================================================
