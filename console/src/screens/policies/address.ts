// The address of the explanation of one call. All names of a call are one part of it, as a query.

export interface CallNames {
  tenant?: string | undefined;
  user?: string | undefined;
  agent?: string | undefined;
  capability?: string | undefined;
  tool?: string | undefined;
}

export const nameFields = ["tenant", "user", "agent", "capability", "tool"] as const;

export function explainAddress(of: CallNames): string {
  const query = new URLSearchParams();
  for (const name of nameFields) if (of[name]) query.set(name, of[name]!);
  return "#/policies/explain/" + encodeURIComponent(query.toString());
}

export function namesOf(part: string): Record<(typeof nameFields)[number], string> {
  const query = new URLSearchParams(part);
  const get = (name: string) => query.get(name) ?? "";
  return {
    tenant: get("tenant"),
    user: get("user"),
    agent: get("agent"),
    capability: get("capability"),
    tool: get("tool"),
  };
}
