// What Find searches: the lists of the API, each with the rights of the person, and the pages of the console.
import { get, type Params, Problem } from "../api/client";
import type {
  Approval,
  CallsPage,
  CatalogTool,
  Fleet,
  Key,
  ListedTool,
  Me,
  PlaygroundTool,
  RecentCall,
  Tenant,
  Toolset,
} from "../api/types";
import { asProblem } from "../parts/load";
import { allTenants, can } from "../parts/roles";
import { withQuery } from "../parts/route";
import { type Route, routes } from "../screens/routes";
import { addressOf } from "../screens/toolsets/Toolsets";
import { inOrder } from "./order";

/** Found is a line of the results. Its texts are those of other people. */
export interface Found {
  kind: string;
  text: string;
  about: string;
  to: string;
  /** Another name of the same. */
  also?: string;
  /** to is a place outside of the console. */
  outside?: boolean;
}

export interface Results {
  found: Found[];
  /** Lists that could not be searched. */
  failed: string[];
}

/** A list shows so many results. */
const few = 5;

interface Source {
  name: string;
  /** The role without which the list is not requested; for all tenants if it is true. */
  all?: boolean;
  find(query: string, tenant: string, signal: AbortSignal): Promise<Found[]>;
}

const id = (text: string) => encodeURIComponent(text);
const words = (...texts: (string | undefined)[]) => texts.filter(Boolean).join(" · ");

async function list<T>(path: string, field: string, params: Params, signal: AbortSignal): Promise<T[]> {
  const page = await get<Record<string, T[] | undefined>>(path, params, signal);
  return page[field] ?? [];
}

const approvalOf = (a: Approval): Found => ({
  kind: "Approval",
  text: words(a.capability, a.tool) || a.id,
  also: a.id,
  about: words(a.state, a.user || a.agent, a.tenant, a.id),
  to: "#/inbox/" + id(a.id),
});

function callsOf(calls: RecentCall[], query: string): Found[] {
  const matches = (text: string | undefined) => text?.toLowerCase().includes(query.toLowerCase());
  const people = new Map<string, Found>();
  const found: Found[] = [];
  for (const c of calls) {
    for (const [kind, name] of [
      ["User", c.user],
      ["Agent", c.agent],
    ] as const) {
      if (!name || !matches(name) || people.size >= few) continue;
      const to = withQuery("#/calls", [[kind.toLowerCase(), name]]);
      people.set(to, { kind, text: name, about: "its calls", to });
    }
    if (found.length >= few) continue;
    const about = words(c.reason || c.code, c.user || c.agent, c.tenant, c.request_id);
    found.push({
      kind: "Call",
      text: words(c.capability, c.tool) || c.id,
      about,
      to: withQuery("#/calls/" + id(c.id), [["query", query]]),
    });
    if (c.trace_link && matches(c.trace_id) && /^https?:/.test(c.trace_link))
      found.push({
        kind: "Trace",
        text: c.trace_id ?? "",
        about: "in the tracing tool",
        to: c.trace_link,
        outside: true,
      });
  }
  return [...people.values(), ...found];
}

const sources: Source[] = [
  {
    name: "approvals",
    find: async (query, tenant, signal) => {
      const waiting = { tenant, state: "pending", text: query, page_size: few };
      const found = await list<Approval>("/v1/approvals", "approvals", waiting, signal);
      if (found.length || !/^apr_/i.test(query)) return found.map(approvalOf);
      try {
        return [approvalOf(await get("/v1/approvals/" + id(query), { tenant: tenant === "-" ? "" : tenant }, signal))];
      } catch (err) {
        if (err instanceof Problem && err.status < 500 && err.status) return [];
        throw err;
      }
    },
  },
  {
    name: "calls",
    find: async (query, tenant, signal) => {
      const page = await get<CallsPage>("/v1/calls", { tenant, query, page_size: 50 }, signal);
      return callsOf((page.calls ?? []) as RecentCall[], query);
    },
  },
  {
    name: "fleets and backends",
    all: true,
    find: async (query, _, signal) => {
      const fleets = await list<Fleet>("/v1/fleets", "fleets", { query, backends: 2, page_size: few }, signal);
      return fleets.flatMap((f) => {
        const matches = f.backends.filter((b) => b.addr.toLowerCase().includes(query.toLowerCase()));
        return [
          {
            kind: "Fleet",
            text: f.capability,
            about: `${f.usable} of ${f.backend_count} usable`,
            to: "#/fleets/" + id(f.capability),
          },
          ...matches.map((b) => ({
            kind: "Backend",
            text: b.addr,
            about: words(b.state, b.state === "up" ? "" : b.why, f.capability),
            to: `#/fleets/${id(f.capability)}/${id(b.addr)}`,
          })),
        ];
      });
    },
  },
  {
    name: "tools",
    find: async (query, tenant, signal) => {
      const all = tenant === "-" || tenant === "";
      const tools = await list<PlaygroundTool | ListedTool>(
        all ? "/v1/tools" : "/v1/playground/tools",
        "tools",
        { query, page_size: few, ...(all ? {} : { tenant, brief: true }) },
        signal,
      );
      return tools
        .filter((t) => t.tool)
        .map((t) => ({
          kind: "Tool",
          text: t.tool!,
          about: words(t.capability, (t as CatalogTool).drifted ? "changed" : ""),
          to: `#/tools/${id(t.capability)}/${id(t.tool!)}`,
        }));
    },
  },
  {
    name: "toolsets",
    find: async (query, tenant, signal) => {
      const found = await list<Toolset>("/v1/toolsets", "toolsets", { tenant, query, page_size: few }, signal);
      return found.map((s) => ({
        kind: "Toolset",
        text: s.name,
        about: words(s.tenant || (s.tenants ?? []).join(", "), s.changed_count ? "changed" : ""),
        to: addressOf(s),
      }));
    },
  },
  {
    name: "tenants",
    find: async (query, _, signal) => {
      const tenants = await list<Tenant>("/v1/tenants", "tenants", { query, page_size: 100 }, signal);
      return tenants
        .slice(0, few)
        .map((t) => ({ kind: "Tenant", text: t.id, about: t.name ?? "", to: "#/tenants/" + id(t.id) }));
    },
  },
  {
    name: "keys",
    find: async (query, tenant, signal) => {
      const keys = await list<Key>(`/v1/tenants/${id(tenant || "-")}/keys`, "keys", { query, page_size: 100 }, signal);
      return keys.slice(0, few).map((k) => ({
        kind: "Key",
        text: k.id,
        also: k.name ?? "",
        about: words(k.name, k.state, k.tenant),
        to: "#/tenants/" + id(k.tenant ?? tenant),
      }));
    },
  },
];

export const reachable = (me: Me): Route[] => routes.filter((r) => !r.allTenants || can(me, r.allTenants, allTenants));

/** pagesOf are the pages of the console whose names have a text. */
export function pagesOf(me: Me, query: string): Found[] {
  const wanted = query.toLowerCase();
  return reachable(me)
    .filter((r) => r.title.toLowerCase().includes(wanted))
    .map((r) => ({ kind: "Page", text: r.title, about: "", to: "#/" + r.path }));
}

/** past leads to the search of the calls of days, which takes too long for each letter. */
const past = (query: string): Found => ({
  kind: "Search",
  text: "Calls of the last 7 days",
  about: `with ${query}`,
  to: withQuery("#/calls", [
    ["query", query],
    ["when", "7d"],
  ]),
});

/** find searches all lists that the person may read. Each fails by itself. */
export async function find(me: Me, tenant: string, query: string, signal: AbortSignal): Promise<Results> {
  const wide = can(me, "viewer", allTenants);
  const asked = sources.filter((s) => wide || (!s.all && !(s.name === "tools" && (tenant === "-" || tenant === ""))));
  const failed: string[] = [];
  const parts = await Promise.all(
    asked.map(async (s) => {
      try {
        return await s.find(query, tenant, signal);
      } catch (err) {
        const { status } = asProblem(err);
        // A list that this gateway does not have, or the person may not read, has nothing to find.
        if (!signal.aborted && ![403, 404, 501].includes(status)) failed.push(s.name);
        return [];
      }
    }),
  );
  const found = inOrder([...pagesOf(me, query), ...parts.flat()], query);
  if (!found.some((f) => f.kind === "Call")) found.push(past(query));
  return { found, failed };
}
