// The time of the calls on the screen: as they end, or those of past days.
import { Choice } from "../../parts/ask";
import { own } from "../../parts/own";
import { Exact } from "../../parts/Time";

const hours: Record<string, number> = { "1h": 1, "24h": 24, "7d": 7 * 24 };

/** hoursOf returns the hours in which calls are searched; undefined: the last calls are shown as they end. */
export const hoursOf = (when: string) => own(hours, when);

export function When({
  value,
  onInput,
  incomplete,
  since,
}: {
  value: string;
  onInput(value: string): void;
  incomplete: boolean;
  /** The time back to which calls were searched; undefined: all of the time, or as far as the list goes. */
  since: string | undefined;
}) {
  return (
    <>
      <div class="filters bar">
        <Choice
          label="When"
          value={value}
          onInput={onInput}
          of={[
            ["", "as they end"],
            ["1h", "the last hour"],
            ["24h", "the last 24 hours"],
            ["7d", "the last 7 days"],
          ]}
        />
      </div>
      {incomplete && <p class="note wait">Not the calls of all tenants were searched. Choose a tenant.</p>}
      {since && (
        <p class="note wait">
          Searched back to <Exact time={since} />. “Show more” goes on with earlier calls.
        </p>
      )}
    </>
  );
}
