// The entry of the gateway in the files of MCP clients, as capgate link prints it.
import { useState } from "preact/hooks";
import { Copy, Trouble } from "../ask";
import { useGet } from "../load";
import { Card, Loading } from "../parts";

interface Client {
  name: string;
  title: string;
  file: string;
  open: string;
  keyed: string;
}

interface Entries {
  placeholder: string;
  clients: Client[];
}

const inJSON = (s: string) => JSON.stringify(s).slice(1, -1);

/** Clients shows the entry for a gateway whose address has no final slash. */
export function Clients({ url, needsKey }: { url: string; needsKey: boolean }) {
  const { value, error, reload } = useGet<Entries>("/docs/clients.json");
  const [chosen, choose] = useState("");
  const client = value?.clients.find((c) => c.name === chosen) ?? value?.clients[0];
  const mcp = url + "/mcp";
  const text = client && (needsKey ? client.keyed : client.open).replaceAll(inJSON(value!.placeholder), inJSON(mcp));
  const command = client && `capgate link ${client.name} --url ${mcp}${needsKey ? " --key" : ""} --write`;
  return (
    <Card title="MCP clients" tools={text && <Copy text={text} label="Copy the entry" />}>
      <div class="stack">
        <Trouble problem={error} retry={reload} what="the entries of MCP clients" />
        {!value && !error && <Loading />}
        {client && (
          <>
            <div class="row tongues" role="group" aria-label="MCP client">
              {value!.clients.map((c) => (
                <button
                  key={c.name}
                  type="button"
                  class="button small"
                  aria-pressed={c === client}
                  onClick={() => choose(c.name)}
                >
                  {c.title}
                </button>
              ))}
            </div>
            <p>
              The address is <span class="mono">{mcp}</span>. Put this into <span class="mono">{client.file}</span>, or
              run <span class="mono">{command}</span>.
            </p>
            <pre
              class="code"
              tabIndex={0}
              role="group"
              aria-label={`Entry for ${client.title}`}
              data-client={client.name}
            >
              {text}
            </pre>
            <p class="dim small">
              This address has all tools that you may use, and the prompts and resources of MCP servers. A toolset, a
              shorter list that an operator defines, is at <span class="mono">{mcp}/NAME</span>.
            </p>
          </>
        )}
      </div>
    </Card>
  );
}
