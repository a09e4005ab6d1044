// The tools of a caller, from capgate.v1.Catalog.
import { get } from "../api/client";
import type { Usable } from "../parts/connect/Connect";

interface CapabilitiesPage {
  capabilities?: { id?: string; tools?: string[] }[];
  next_page_token?: string;
}

interface ToolsPage {
  tools?: { name?: string; description?: string; policy?: string; input_schema?: unknown }[];
}

const mostPages = 25; // of 200 capabilities

/** listTools returns the names of all tools. It throws a Problem. */
export async function listTools(): Promise<{ tools: Usable[]; partial: boolean }> {
  const tools: Usable[] = [];
  let token = "";
  for (let i = 0; i < mostPages; i++) {
    const page = await get<CapabilitiesPage>("/v1/capabilities", { page_size: 200, page_token: token });
    for (const c of page.capabilities ?? []) {
      for (const tool of c.tools ?? []) tools.push({ capability: c.id ?? "", tool });
    }
    token = page.next_page_token ?? "";
    if (!token) return { tools, partial: false };
  }
  return { tools, partial: true };
}

/** toolsOf returns the details of the tools of a capability, by name. */
export async function toolsOf(capability: string): Promise<Map<string, Omit<Usable, "capability" | "tool">>> {
  const { tools } = await get<ToolsPage>(`/v1/capabilities/${encodeURIComponent(capability)}/tools`);
  return new Map(
    (tools ?? []).map((t) => [
      t.name ?? "",
      { policy: t.policy, description: t.description, schema: t.input_schema ?? {} },
    ]),
  );
}
