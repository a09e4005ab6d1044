// The form for the key of a caller, which stays in the memory of the page.
import { useState } from "preact/hooks";
import type { Problem } from "../api/client";
import { Card, Field } from "../parts/parts";
import { inWords } from "../parts/Untrusted";

/** KeyForm asks for a key. onKey uses one, or none, and returns why it is not accepted. */
export function KeyForm({ keyed, onKey }: { keyed: boolean; onKey(key: string): Promise<Problem | undefined> }) {
  const [text, setText] = useState("");
  const [wrong, setWrong] = useState<string>();
  const submit = async (e: Event) => {
    e.preventDefault();
    const key = text.trim();
    if (!/^[\x21-\x7e]+$/.test(key)) {
      setWrong("This is not a key: a key has no spaces or other special characters.");
      return;
    }
    const problem = await onKey(key);
    setWrong(problem && `This key is not accepted: ${inWords(problem.detail, 500)}. Enter another key.`);
    if (!problem) setText("");
  };
  return (
    <Card title="Key">
      <form class="form" onSubmit={(e) => void submit(e)}>
        <Field
          label="API key or token"
          hint={
            keyed
              ? "The key is accepted: these are its tools."
              : "Your tools are shown after you give a key. It stays in this page."
          }
          error={wrong}
        >
          {(id, about) => (
            <input
              id={id}
              class="input"
              type="password"
              autoComplete="off"
              autoCapitalize="none"
              spellcheck={false}
              required
              aria-describedby={about}
              aria-invalid={Boolean(wrong)}
              value={text}
              onInput={(e) => setText(e.currentTarget.value)}
            />
          )}
        </Field>
        <div class="row">
          <button type="submit" class="button primary">
            Use this key
          </button>
          {keyed && (
            <button type="button" class="button" onClick={() => void onKey("")}>
              Forget it
            </button>
          )}
        </div>
      </form>
    </Card>
  );
}
