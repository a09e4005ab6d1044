// Questions before a backend gets no more calls, and how far a drain is.
import { useState } from "preact/hooks";
import { type Problem, post } from "../../api/client";
import type { Backend, BackendDrains, Fleet } from "../../api/types";
import { Dialog, Failure } from "../../parts/parts";
import { useSession } from "../../parts/session";
import { Untrusted } from "../../parts/Untrusted";

interface Props {
  fleet: Fleet;
  backend: Backend;
  drain: boolean;
  onClose(): void;
  onDone(): void;
}

export function DrainDialog({ fleet, backend, drain, onClose, onDone }: Props) {
  const { say } = useSession();
  const [problem, setProblem] = useState<Problem>();
  const [force, setForce] = useState(false);
  const [busy, setBusy] = useState(false);
  const last = drain && (problem?.reason === "LAST_BACKEND" || (backend.usable && fleet.usable <= 1));
  const run = async () => {
    setBusy(true);
    setProblem(undefined);
    try {
      const verb = drain ? "drain" : "undrain";
      const { shared } = await post<BackendDrains>(
        `/v1/backends/${encodeURIComponent(backend.addr)}:${verb}`,
        drain ? { capability: fleet.capability, force } : { capability: fleet.capability },
      );
      say(
        `${backend.addr} ${drain ? "is drained" : "gets calls again"}` +
          (shared ? "." : ", at this replica alone: Redis is away."),
      );
      onDone();
      onClose();
    } catch (err) {
      setProblem(err as Problem);
      setBusy(false);
    }
  };
  return (
    <Dialog title={drain ? "Drain this backend?" : "Undrain this backend?"} onClose={onClose}>
      <p>
        <Untrusted text={backend.addr} mono /> of{" "}
        <b>
          <Untrusted text={fleet.capability} />
        </b>
      </p>
      <p class="dim">
        {drain
          ? "No replica sends it new calls. Calls in flight run to their end. It stays drained until it is undrained."
          : "All replicas send calls to it again, as soon as its health permits."}
      </p>
      {drain && (
        <p class="note">
          {backend.in_flight} {backend.in_flight === 1 ? "call is" : "calls are"} in flight at this replica.
        </p>
      )}
      {last && (
        <label class="choice">
          <input type="checkbox" checked={force} onChange={(e) => setForce(e.currentTarget.checked)} />
          <span>
            <b>Drain it even though it is the last one</b>
            <span class="dim small">Calls of this capability are refused until another backend is usable.</span>
          </span>
        </label>
      )}
      {problem?.reason !== "LAST_BACKEND" && <Failure problem={problem} />}
      <div class="actions">
        <button type="button" class="button" onClick={onClose}>
          Cancel
        </button>
        <button
          type="button"
          class={drain ? "button danger" : "button primary"}
          disabled={busy || (last && !force)}
          onClick={() => void run()}
        >
          {drain ? "Drain" : "Undrain"}
        </button>
      </div>
    </Dialog>
  );
}

export function WithdrawDialog({
  capability,
  addr,
  onClose,
  onDone,
}: {
  capability: string;
  addr: string;
  onClose(): void;
  onDone(): void;
}) {
  const { say } = useSession();
  const [problem, setProblem] = useState<Problem>();
  const run = async () => {
    try {
      await post("/v1/registrations:withdraw", { capability, addr });
      say(`The registration of ${addr} is withdrawn.`);
      onDone();
      onClose();
    } catch (err) {
      setProblem(err as Problem);
    }
  };
  return (
    <Dialog title="Withdraw this registration?" onClose={onClose}>
      <p>
        <Untrusted text={addr} mono /> of{" "}
        <b>
          <Untrusted text={capability} />
        </b>
      </p>
      <p class="dim">Running calls finish, and no new ones arrive. The backend may register again by itself.</p>
      <Failure problem={problem} />
      <div class="actions">
        <button type="button" class="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" class="button danger" onClick={() => void run()}>
          Withdraw
        </button>
      </div>
    </Dialog>
  );
}
