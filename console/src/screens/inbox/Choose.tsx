// The box of a card that chooses it, and what is done with those that are chosen.
import { Icon } from "../../parts/Icon";

interface Props {
  label: string;
  /** Whether it is chosen: some, if it is a group of which others are not. */
  chosen: boolean | "some";
  onChoose(range: boolean): void;
}

/** Choose is a box. With Shift, it is for all cards since the last one. */
export function Choose({ label, chosen, onChoose }: Props) {
  return (
    <label class="choose">
      <input
        type="checkbox"
        aria-label={`Choose ${label}`}
        title="Select (x); with Shift, select a range (X)"
        checked={chosen === true}
        indeterminate={chosen === "some"}
        onClick={(e) => onChoose(e.shiftKey)}
      />
    </label>
  );
}

/** Chosen is a bar that stays in sight while something is chosen. */
export function Chosen({ count, onAnswer, onClear }: { count: number; onAnswer(): void; onClear(): void }) {
  return (
    <>
      <p class="hidden" role="status">
        {count ? `${count} chosen` : ""}
      </p>
      {count > 0 && (
        <div class="chosen" role="region" aria-label="Chosen approvals">
          <b>{count.toLocaleString("en")} chosen</b>
          <button type="button" class="button" onClick={onClear}>
            Clear
          </button>
          <button type="button" class="button primary" onClick={onAnswer}>
            <Icon name="check" />
            Answer {count.toLocaleString("en")}
          </button>
        </div>
      )}
    </>
  );
}
