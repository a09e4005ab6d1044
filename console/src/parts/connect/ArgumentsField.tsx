// The arguments of a call, as the text of a JSON object.
import { Field } from "../parts";

/** wrongIn says why a text has no arguments; undefined: it has. */
export function wrongIn(text: string): string | undefined {
  try {
    const v: unknown = JSON.parse(text);
    return v !== null && typeof v === "object" && !Array.isArray(v)
      ? undefined
      : "The arguments must be a JSON object.";
  } catch {
    return "This is not JSON yet.";
  }
}

interface Props {
  label: string;
  text: string;
  onText(text: string): void;
  /** A few lines are enough. */
  short?: boolean;
}

/** ArgumentsField is a field for arguments, and says what is wrong with them. */
export function ArgumentsField({ label, text, onText, short = false }: Props) {
  return (
    <Field label={label} error={wrongIn(text)}>
      {(id, about) => (
        <textarea
          id={id}
          class={short ? "input json short" : "input json"}
          spellcheck={false}
          aria-describedby={about}
          value={text}
          onInput={(e) => onText(e.currentTarget.value)}
        />
      )}
    </Field>
  );
}
