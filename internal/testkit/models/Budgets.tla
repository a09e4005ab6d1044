------------------------------ MODULE Budgets ------------------------------
(***************************************************************************)
(* A quota of one day or month that replicas of the gateway share: leases  *)
(* from Redis, shares while Redis is away, and failovers. The code:        *)
(* internal/ratelimit and the script of internal/redisstore/limits_lua.go. *)
(*                                                                         *)
(* Redis is a number of calls. A failover sets it back to an earlier one.  *)
(* An exchange is executed at most once, and its answer may get lost: no   *)
(* command is sent again, and the script refuses a message that is not     *)
(* newer than the gateway's last one. Some or all of the lost number may   *)
(* be restored by an exchange, which can only lower the number of calls;   *)
(* the model leaves that out, and the end of a period.                     *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Gateways,
    Quota,
    Lease,        \* most calls of a lease
    Known,        \* the number of gateways that each knows of
    Outages,      \* exchanges that fail, all together
    Failovers,
    \* What the script and the gateway do.
    ChecksQuota,  \* a lease is at most what is left
    Reports,      \* calls of a share are reported when Redis is back
    KeepsReturns, \* after an exchange without an answer, its returned calls are returned again
    Divides       \* a share is a part of what is left; else of the whole quota

VARIABLES
    count,        \* Redis: leased calls
    leased,       \* gateway -> leased calls that it has
    left,         \* gateway -> the rest of its share
    unreported,   \* gateway -> calls of its share that Redis does not know
    returned,     \* gateway -> leased calls that it returns with the next exchange
    made,         \* calls that were admitted
    lost,         \* calls that failovers have taken from Redis' number
    outages, failovers

vars == <<count, leased, left, unreported, returned, made, lost, outages, failovers>>

Min(a, b) == IF a < b THEN a ELSE b
Minus(a, b) == IF a > b THEN a - b ELSE 0

Share(n) == (IF Divides THEN Minus(Quota, n) ELSE Quota) \div Known

\* Every gateway has been in contact once.
Init ==
    /\ count = 0
    /\ leased = [g \in Gateways |-> 0]
    /\ left = [g \in Gateways |-> Share(0)]
    /\ unreported = [g \in Gateways |-> 0]
    /\ returned = [g \in Gateways |-> 0]
    /\ made = 0 /\ lost = 0 /\ outages = 0 /\ failovers = 0

\* A call takes what its gateway has leased.
Call(g) ==
    /\ leased[g] > 0
    /\ leased' = [leased EXCEPT ![g] = @ - 1]
    /\ made' = made + 1
    /\ UNCHANGED <<count, left, unreported, returned, lost, outages, failovers>>

\* Calls come no more, or the gateway stops: its lease goes back.
Idle(g) ==
    /\ leased[g] > 0
    /\ returned' = [returned EXCEPT ![g] = @ + leased[g]]
    /\ leased' = [leased EXCEPT ![g] = 0]
    /\ UNCHANGED <<count, left, unreported, made, lost, outages, failovers>>

\* What the script makes of an exchange.
After(g) == Minus(count + unreported[g], returned[g])
Granted(g, want) == IF ChecksQuota THEN Min(want, Minus(Quota, After(g))) ELSE want

Exchange(g, want) ==
    LET n == After(g) + Granted(g, want) IN
    /\ count' = n
    /\ leased' = [leased EXCEPT ![g] = @ + Granted(g, want)]
    /\ unreported' = [unreported EXCEPT ![g] = 0]
    /\ returned' = [returned EXCEPT ![g] = 0]
    /\ left' = [left EXCEPT ![g] = Share(n)]
    /\ UNCHANGED <<made, lost, outages, failovers>>

\* Redis is away, or does not answer: executed tells whether it has the exchange. The gateway takes from its share.
Fail(g, want, executed) ==
    LET own == Min(want, left[g]) IN
    /\ outages < Outages
    /\ outages' = outages + 1
    /\ count' = IF executed THEN After(g) + Granted(g, want) ELSE count
    /\ leased' = [leased EXCEPT ![g] = @ + own]
    /\ left' = [left EXCEPT ![g] = @ - own]
    /\ unreported' = [unreported EXCEPT ![g] = IF Reports THEN @ + own ELSE 0]
    /\ returned' = [returned EXCEPT ![g] = IF KeepsReturns THEN @ ELSE 0]
    /\ UNCHANGED <<made, lost, failovers>>

\* The replica that is promoted may lack any of the last leases.
Failover ==
    /\ failovers < Failovers
    /\ failovers' = failovers + 1
    /\ \E n \in 0..count : count' = n /\ lost' = lost + (count - n)
    /\ UNCHANGED <<leased, left, unreported, returned, made, outages>>

Next ==
    \/ Failover
    \/ \E g \in Gateways :
        \/ Call(g) \/ Idle(g)
        \/ \E want \in {0, Lease} :
            \/ Exchange(g, want)
            \/ \E executed \in BOOLEAN : Fail(g, want, executed)

Spec == Init /\ [][Next]_vars

Same == Permutations(Gateways)

-----------------------------------------------------------------------------
(* Promises *)

\* While Redis answers and does not fail over, a quota is never exceeded.
Exact == outages = 0 /\ failovers = 0 => made <= Quota

\* Else it is exceeded by at most a share of each gateway but one, and by what failovers have taken from Redis.
Others == Cardinality(Gateways) - 1
Bounded == made <= Quota + Others * (Quota \div Cardinality(Gateways)) + lost

\* Not a promise: the bound is of use only if Redis' silence can lead above the quota.
NeverAbove == made <= Quota
=============================================================================
