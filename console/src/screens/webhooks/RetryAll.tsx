// The question before all dead letters are delivered again.
import { post } from "../../api/client";
import type { Retried } from "../../api/types";
import { Ask } from "../../parts/ask";
import { useSession } from "../../parts/session";

const rounds = 100; // requests, so that a letter that dies again meanwhile is not retried without end

interface Props {
  /** Words that the letters have; empty: all letters. */
  query?: string;
  onClose(): void;
  onDone(): void;
}

export function RetryAll({ query = "", onClose, onDone }: Props) {
  const { say } = useSession();
  const run = async () => {
    let retried = 0,
      malformed = 0;
    for (let i = 0; i < rounds; i++) {
      const part = await post<Retried>("/v1/webhooks/dead:retry", { query });
      retried += part.retried;
      malformed = Math.max(malformed, part.malformed ?? 0);
      if (!part.more || !part.retried) break;
    }
    say(
      `${retried.toLocaleString("en")} ${retried === 1 ? "event waits" : "events wait"} for another delivery.` +
        (malformed ? ` Skipped, because Redis has them in a form that cannot be read: ${malformed}.` : ""),
    );
    onDone();
  };
  return (
    <Ask title={query ? "Retry all that match?" : "Retry all of them?"} verb="Retry all" run={run} onClose={onClose}>
      <p class="dim">
        They are sent with their old webhook-ids, so receivers recognize those that they already have. Events that fail
        again are dead letters again.
      </p>
    </Ask>
  );
}
