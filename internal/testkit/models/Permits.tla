------------------------------ MODULE Permits ------------------------------
(***************************************************************************)
(* The limit of concurrent calls that replicas of the gateway share:       *)
(* permits from Redis, their expiry, shares while Redis is away, and       *)
(* failovers. The code: internal/ratelimit (permits, localShare), and      *)
(* places in internal/redisstore/limits_lua.go. Backends' permits          *)
(* (router, permits.go) follow the same rule.                              *)
(*                                                                         *)
(* Redis has the last report of each gateway. A gateway that runs renews   *)
(* its report in time, so reports do not end here; the silence is one that *)
(* lasts, and the same for all gateways.                                   *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Gateways,
    Limit,
    Known,        \* the number of gateways that each knows of
    Silences,     \* TRUE: Redis may fall silent
    Failovers,
    CountsReports \* the script grants only what the reports of others leave

VARIABLES
    report,       \* Redis: gateway -> permits
    held,         \* gateway -> permits
    running,      \* gateway -> calls
    silent,       \* Redis does not answer
    lost,         \* permits that failovers have taken from the reports
    failovers

vars == <<report, held, running, silent, lost, failovers>>

Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
Minus(a, b) == IF a > b THEN a - b ELSE 0

RECURSIVE Sum(_, _)
Sum(f, some) == IF some = {} THEN 0 ELSE LET g == CHOOSE g \in some : TRUE IN f[g] + Sum(f, some \ {g})

Zero == [g \in Gateways |-> 0]
Share == Max(Limit \div Known, 1)

Init ==
    /\ report = Zero /\ held = Zero /\ running = Zero
    /\ silent = FALSE /\ lost = 0 /\ failovers = 0

Start(g) ==
    /\ running[g] < held[g]
    /\ running' = [running EXCEPT ![g] = @ + 1]
    /\ UNCHANGED <<report, held, silent, lost, failovers>>

End(g) ==
    /\ running[g] > 0
    /\ running' = [running EXCEPT ![g] = @ - 1]
    /\ UNCHANGED <<report, held, silent, lost, failovers>>

\* keep is what the gateway retains, and want what it would like to have. It gives up the rest at once. The answer may
\* get lost: then it has only what it kept.
Exchange(g, keep, want, answered) ==
    LET taken == IF CountsReports THEN Sum(report, Gateways \ {g}) ELSE 0
        kept == Max(running[g], Min(keep, report[g]))
        got == kept + Min(want, Minus(Limit, taken + kept))
    IN
    /\ ~silent
    /\ keep \in running[g]..held[g]
    /\ report' = [report EXCEPT ![g] = got]
    /\ held' = [held EXCEPT ![g] = IF answered THEN got ELSE keep]
    /\ UNCHANGED <<running, silent, lost, failovers>>

FallSilent ==
    /\ Silences /\ ~silent
    /\ silent' = TRUE
    /\ UNCHANGED <<report, held, running, lost, failovers>>

\* A gateway grants itself its share, or the part of it that it takes at first. Its running calls go on.
Own(g) ==
    /\ silent
    /\ \E n \in 0..Share : held' = [held EXCEPT ![g] = Max(running[g], n)]
    /\ UNCHANGED <<report, running, silent, lost, failovers>>

\* The replica that is promoted may lack any of the last reports. One that was larger before would grant less.
Failover ==
    /\ failovers < Failovers /\ ~silent
    /\ failovers' = failovers + 1
    /\ report' \in {r \in [Gateways -> 0..Limit] : \A g \in Gateways : r[g] \in {0, report[g]}}
    /\ lost' = lost + Sum(report, Gateways) - Sum(report', Gateways)
    /\ UNCHANGED <<held, running, silent>>

Next ==
    \/ Failover \/ FallSilent
    \/ \E g \in Gateways :
        \/ Start(g) \/ End(g) \/ Own(g)
        \/ \E keep \in 0..Limit, want \in {0, 1, Limit}, answered \in BOOLEAN : Exchange(g, keep, want, answered)

Spec == Init /\ [][Next]_vars

Same == Permutations(Gateways)

-----------------------------------------------------------------------------
(* Promises *)

Running == Sum(running, Gateways)
Others == Cardinality(Gateways) - 1

\* While Redis answers, the limit is exceeded only by what failovers have taken from the reports: not at all without.
Bounded == ~silent => Running <= Limit + lost

\* While it is silent, also by at most a share of each gateway but one.
InSilence == silent => Running <= Limit + lost + Others * (Limit \div Cardinality(Gateways))

\* Not promises: the bounds are of use only if calls can exceed the limit.
NeverAbove == Running <= Limit
=============================================================================
