// How programs connect to the public port: the tools of a tenant, and calls in several languages.
import { useEffect, useState } from "preact/hooks";
import type { PlaygroundTool } from "../../api/types";
import { Trouble, useOneTenant, useSlow } from "../../parts/ask";
import { Clients } from "../../parts/connect/Clients";
import { most, Connect as Tools } from "../../parts/connect/Connect";
import { usePublicPort } from "../../parts/connect/port";
import { useList } from "../../parts/list";
import { Empty, Loading, Screen } from "../../parts/parts";

export function Connect(_: { rest: string[] }) {
  const tenant = useOneTenant();
  const port = usePublicPort();
  const [search, setSearch] = useState("");
  const { items, error, loading, more, reload } = useList<PlaygroundTool>("/v1/playground/tools", "tools", {
    tenant,
    query: useSlow(search.trim()),
    page_size: 100,
  });
  const tools = items.flatMap((t) =>
    t.tool && t.policy !== "block"
      ? [
          {
            capability: t.capability,
            tool: t.tool,
            policy: t.policy,
            description: t.description,
            schema: t.input_schema,
          },
        ]
      : [],
  );
  // The list has blocked tools, too, which are not shown.
  useEffect(() => {
    if (tools.length < most) more?.();
  }, [items]);
  return (
    <Screen
      title="Connect"
      about={
        port && (
          <>
            Programs call <span class="mono">{port.url}</span>.{" "}
            {port.key ? (
              <>
                They need a key: <a href={"#/tenants/" + encodeURIComponent(tenant || "-")}>keys of the tenant</a>.
              </>
            ) : (
              "They need no key."
            )}{" "}
            <a href={port.url + "/docs"} rel="noopener noreferrer">
              The page for callers
            </a>
          </>
        )
      }
    >
      <div class="stack">
        <Trouble problem={error} retry={reload} what="the tools of a tenant" />
        {(loading && !error && items.length === 0 && !search) || !port ? (
          <Loading />
        ) : (
          <>
            {!error && tools.length === 0 && !search && <Empty>This tenant may not use any known tool.</Empty>}
            {(tools.length > 0 || search) && (
              <Tools
                target={port}
                title="Tools for callers"
                tools={tools}
                partial={more !== undefined}
                onSearch={setSearch}
                loading={loading}
                below={(of) => (
                  <p class="dim small">
                    <a href={`#/tools/${encodeURIComponent(of.capability)}/${encodeURIComponent(of.tool)}`}>
                      Try it in the console
                    </a>{" "}
                    · <a href="#/calls">Last calls</a>
                  </p>
                )}
              />
            )}
            <Clients url={port.url} needsKey={port.key} />
          </>
        )}
        <p class="dim small">
          For programs: the OpenAPI document of the admin API, <a href="/openapi.json">openapi.json</a>. That of the
          public port is at its <span class="mono">/openapi.json</span>.
        </p>
      </div>
    </Screen>
  );
}
