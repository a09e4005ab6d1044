// The shapes that the screens use. The build generates schema from the OpenAPI document of the admin API; a document
// that no longer fits the screens fails it.
import type { components } from "schema";

type Schemas = components["schemas"];
/** Known is a shape whose fields are always there. */
type Known<T, K extends keyof T> = T & { [F in K]-?: NonNullable<T[F]> };

export type Me = Schemas["GetMeResponse"];
export type FleetsPage = Schemas["ListFleetsResponse"];
export type Fleet = Schemas["Fleet"];
export type Backend = Schemas["Backend"];
export type BackendDrains = Schemas["BackendState"];
export type Answer = Schemas["ApprovalAnswer"];
export type Approval = Known<Schemas["Approval"], "id" | "tenant" | "capability" | "tool" | "state">;
export type PastApproval = Known<Schemas["PastApproval"], "id" | "tenant">;
export type PastApprovalsPage = Schemas["ListPastApprovalsResponse"];
export type ApprovalStatistics = Schemas["ApprovalStatistics"];
export type ApprovalCounts = Schemas["ApprovalCounts"];
export type ApprovalDay = Schemas["ApprovalStatistics_Day"];
export type Past = Schemas["HistoryResponse"];
export type HistoryStep = Schemas["HistoryResponse_Step"];
export type HistoryMark = Schemas["HistoryResponse_Mark"];
export type HistorySums = Schemas["HistorySums"];
export type LastHour = Schemas["ListHistoryResponse"];
export type Minute = Schemas["GetSummaryResponse_Minute"];
export type Summary = Schemas["GetSummaryResponse"];
export type TenantsPage = Schemas["ListTenantsResponse"];
export type Tenant = Known<Schemas["Tenant"], "id">;
export type Key = Known<Schemas["Key"], "id">;
export type NewKey = Schemas["CreateKeyResponse"];
export type TenantInUse = Schemas["TenantInUse"];
export type LimitInUse = Schemas["LimitInUse"];
export type Rule = Known<Schemas["Policy"], "capability" | "tool" | "policy">;
export type Explained = Schemas["ExplainPolicyResponse"];
export type Look = Schemas["ExplainPolicyResponse_Look"];
export type Compared = Schemas["ComparePoliciesResponse"];
export type RuleChange = Schemas["ComparePoliciesResponse_PolicyChange"];
export type RecentCall = Known<Schemas["RecentCall"], "id">;
export type CallsPage = Schemas["ListCallsResponse"];
export type Letter = Schemas["DeadLetter"];
export type Retried = Schemas["RetryDeadLettersResponse"];
export type LettersPage = Schemas["ListDeadLettersResponse"];
export type Change = Known<Schemas["Change"], "id">;
export type ChangesPage = Schemas["ListChangesResponse"];
export type SessionRecord = Schemas["Session"];
export type SessionsPage = Schemas["ListSessionsResponse"];
export type CatalogEntry = Known<Schemas["CatalogEntry"], "capability">;
export type CatalogTool = Schemas["CatalogEntry_Tool"];
export type Version = Schemas["CatalogEntry_Version"];
export type ListedTool = Known<Schemas["CatalogTool"], "capability" | "tool">;
export type Toolset = Known<Schemas["Toolset"], "name">;
export type ToolsetEntry = Schemas["Toolset_Entry"];
export type PlaygroundTool = Known<Schemas["PlaygroundTool"], "capability">;
export type Decision = Known<Schemas["ListDecisionsResponse_Decision"], "tool" | "policy">;
export type DecisionsPage = Schemas["ListDecisionsResponse"];
export type DailyUse = Schemas["DailyUse"];
export type DailyUsage = Schemas["ListDailyUsageResponse"];
