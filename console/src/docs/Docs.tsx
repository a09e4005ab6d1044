// The page of callers at the public port: their tools, how programs call them, and their last calls.
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { base, type Problem, setCredential } from "../api/client";
import type { Me } from "../api/types";
import { Clients } from "../parts/connect/Clients";
import { Connect, type Usable } from "../parts/connect/Connect";
import type { Target } from "../parts/connect/snippets";
import { Icon } from "../parts/Icon";
import { asProblem } from "../parts/load";
import { Empty, Failure, Loading, Screen } from "../parts/parts";
import { SessionContext } from "../parts/session";
import { useTheme } from "../shell/theme";
import { listTools, toolsOf } from "./catalog";
import { KeyForm } from "./KeyForm";
import { OwnCalls } from "./OwnCalls";
import { Run } from "./Run";
import "./docs.css";

// Parts that copy or tell need a session; callers have none.
const stranger = { name: "", roles: [] as string[] } as unknown as Me;

export function Docs() {
  const [said, say] = useState("");
  const session = useMemo(() => ({ me: stranger, tenant: "-", setTenant() {}, say }), []);
  useEffect(() => {
    if (!said) return;
    const timer = window.setTimeout(() => say(""), 6000);
    return () => window.clearTimeout(timer);
  }, [said]);
  return (
    <SessionContext.Provider value={session}>
      <div class="frame docs">
        <Top />
        <main id="main" tabIndex={-1}>
          <Caller />
        </main>
      </div>
      <div class={"toast" + (said ? " shown" : "")} role="status" aria-live="polite">
        {said}
      </div>
    </SessionContext.Provider>
  );
}

function Top() {
  const theme = useTheme();
  return (
    <header class="top">
      <span class="brand">capgate</span>
      <span class="grow" />
      <nav aria-label="Documents" class="row">
        <a href={base + "/openapi.json"}>OpenAPI</a>
        <a href={base + "/docs/errors"}>Errors</a>
      </nav>
      <button type="button" class="icon-button" onClick={theme.next} aria-label={`Colors: ${theme.name}. Change`}>
        <Icon name={theme.name === "auto" ? "auto" : theme.name === "dark" ? "moon" : "sun"} />
      </button>
    </header>
  );
}

interface State {
  tools?: Usable[];
  partial?: boolean;
  problem?: Problem;
  /** The gateway has asked for a key. */
  needsKey: boolean;
  /** A key is in use. */
  keyed: boolean;
}

const asksForKey = (p: Problem) => p.reason === "CREDENTIAL_MISSING";

function Caller() {
  const [state, set] = useState<State>({ needsKey: false, keyed: false });
  const [turn, next] = useState(0);
  /** load lists the tools for a key, or without one, and returns what went wrong. */
  const load = useCallback(async (key: string): Promise<Problem | undefined> => {
    setCredential(key);
    try {
      const { tools, partial } = await listTools();
      set((s) => ({ tools, partial, needsKey: s.needsKey, keyed: key !== "" }));
      next((n) => n + 1);
      return undefined;
    } catch (err) {
      const problem = asProblem(err);
      setCredential("");
      const missing = asksForKey(problem);
      set((s) => ({
        needsKey: s.needsKey || missing,
        keyed: false,
        ...(missing || key !== "" ? {} : { problem }),
      }));
      return problem;
    }
  }, []);
  useEffect(() => void load(""), []);
  const known = state.tools !== undefined || state.needsKey;
  const target: Target = { url: location.origin + base, key: state.needsKey };
  return (
    <Screen
      title="Connect"
      about={
        known && (
          <>
            Call <span class="mono">{target.url}</span>{" "}
            {state.needsKey ? "with an API key or a token." : "without a key."}
          </>
        )
      }
    >
      <div class="stack">
        {state.needsKey && <KeyForm keyed={state.keyed} onKey={load} />}
        <Failure problem={state.problem} retry={() => void load("")} />
        {!known && !state.problem && <Loading />}
        {state.tools && <Tools key={turn} state={state} target={target} />}
        {known && <Clients url={target.url} needsKey={state.needsKey} />}
      </div>
    </Screen>
  );
}

/** Tools has the tools of a caller, and its last calls. */
function Tools({ state, target }: { state: State; target: Target }) {
  const [tools, setTools] = useState(state.tools!);
  const [calls, called] = useState(0);
  const onShow = useCallback(
    (shown: Usable[]) => {
      const missing = new Set(shown.filter((t) => t.schema === undefined).map((t) => t.capability));
      for (const capability of missing) {
        toolsOf(capability).then(
          (details) =>
            setTools((all) =>
              all.map((t) => (t.capability === capability ? { schema: {}, ...t, ...details.get(t.tool) } : t)),
            ),
          () => {}, // without them, the tool has its name
        );
      }
    },
    [setTools],
  );
  if (tools.length === 0) {
    return (
      <Empty>
        <b>There are no tools that you may use</b>
        An operator decides which tools callers may use, by the policy of fleets and by rules.
      </Empty>
    );
  }
  return (
    <>
      <Connect
        target={target}
        tools={tools}
        partial={state.partial ?? false}
        onShow={onShow}
        below={(of, args) => <Run of={of} args={args} onEnd={() => called((n) => n + 1)} />}
      />
      <OwnCalls turn={calls} />
    </>
  );
}
