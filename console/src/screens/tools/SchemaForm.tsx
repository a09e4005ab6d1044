// A form for the arguments of a tool, from their JSON schema. What it has no field for is JSON in a text field.

import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import { own } from "../../parts/own";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { demanded, kindOf, number, properties, type Schema, schemaOf, startOf, text } from "./schema";

interface Props {
  schema: Schema;
  name: string;
  value: unknown;
  required: boolean;
  depth: number;
  onChange(value: unknown): void;
}

/** Fields are those of an object. */
export function Fields({
  schema,
  value,
  depth,
  onChange,
}: {
  schema: Schema;
  value: unknown;
  depth: number;
  onChange(value: unknown): void;
}) {
  const of = schemaOf(value),
    must = demanded(schema);
  const put = (name: string, v: unknown) => {
    const rest = Object.entries(of).filter(([k]) => k !== name);
    onChange(Object.fromEntries(v === undefined ? rest : [...rest, [name, v]]));
  };
  return (
    <>
      {properties(schema).map(([name, s]) => (
        <Value
          key={name}
          schema={s}
          name={name}
          value={own(of, name)}
          required={must.includes(name)}
          depth={depth}
          onChange={(v) => put(name, v)}
        />
      ))}
    </>
  );
}

function Value(p: Props) {
  const kind = kindOf(p.schema, p.depth);
  if (kind === "object") return <Nested {...p} />;
  if (kind === "list") return <List {...p} />;
  return <Plain {...p} kind={kind} />;
}

const nameOf = (p: { name: string; required: boolean; schema: Schema }) =>
  inWords(p.name, 80) + (p.required ? "" : " (optional)");

const About = ({ of }: { of: Schema }) =>
  text(of, "description") ? (
    <p class="dim small">
      <Untrusted text={text(of, "description")} most={200} />
    </p>
  ) : null;

function Plain(p: Props & { kind: "string" | "number" | "boolean" | "enum" | "json" }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{nameOf(p)}</label>
      <Input {...p} id={id} />
      <div id={id + "-about"}>
        <About of={p.schema} />
      </div>
    </div>
  );
}

function Input({
  id,
  kind,
  schema: s,
  value,
  required,
  onChange,
}: Props & { id: string; kind: "string" | "number" | "boolean" | "enum" | "json" }): ComponentChildren {
  const shared = { id, class: "input", required, "aria-describedby": id + "-about" };
  if (kind === "json") return <Json id={id} value={value} required={required} onChange={onChange} />;
  if (kind === "enum" || kind === "boolean") {
    const of: unknown[] = kind === "boolean" ? [true, false] : (s["enum"] as unknown[]);
    const at = of.indexOf(value);
    return (
      <select
        {...shared}
        value={at < 0 ? "" : String(at)}
        onChange={(e) => onChange(e.currentTarget.value === "" ? undefined : of[Number(e.currentTarget.value)])}
      >
        <option value="">{required ? "choose" : "not set"}</option>
        {of.map((v, i) => (
          <option key={i} value={String(i)}>
            {inWords(typeof v === "string" ? v : JSON.stringify(v), 120)}
          </option>
        ))}
      </select>
    );
  }
  if (kind === "number") {
    return (
      <input
        {...shared}
        type="number"
        step={s["type"] === "integer" ? 1 : "any"}
        min={number(s, "minimum")}
        max={number(s, "maximum")}
        value={typeof value === "number" ? value : ""}
        onInput={(e) =>
          onChange(
            e.currentTarget.value === "" || Number.isNaN(e.currentTarget.valueAsNumber)
              ? undefined
              : e.currentTarget.valueAsNumber,
          )
        }
      />
    );
  }
  const long =
    (number(s, "maxLength") ?? 0) > 200 ||
    (typeof value === "string" && value.length > 80) ||
    /text|body|content|message/i.test(text(s, "title"));
  const words = {
    ...shared,
    required: required && (number(s, "minLength") ?? 0) > 0,
    value: typeof value === "string" ? value : "",
    spellcheck: false,
    autoComplete: "off",
  };
  const typed = (v: string) => onChange(v === "" && !required ? undefined : v);
  return long ? (
    <textarea {...words} onInput={(e) => typed(e.currentTarget.value)} />
  ) : (
    <input {...words} onInput={(e) => typed(e.currentTarget.value)} />
  );
}

/** Json edits a value as JSON text. Invalid text shows an error, and the form cannot be sent. */
function Json({
  id,
  value,
  required,
  onChange,
}: {
  id: string;
  value: unknown;
  required: boolean;
  onChange(value: unknown): void;
}) {
  const [shown, setShown] = useState(() => (value === undefined ? "" : JSON.stringify(value, null, 2)));
  const typed = (field: HTMLTextAreaElement) => {
    setShown(field.value);
    try {
      onChange(field.value.trim() ? JSON.parse(field.value) : undefined);
      field.setCustomValidity("");
    } catch {
      field.setCustomValidity("It must be JSON.");
    }
  };
  return (
    <textarea
      id={id}
      class="input json"
      value={shown}
      required={required}
      spellcheck={false}
      placeholder="JSON"
      aria-describedby={id + "-about"}
      onInput={(e) => typed(e.currentTarget)}
    />
  );
}

function Nested(p: Props) {
  const set = p.required || p.value !== undefined;
  return (
    <fieldset class="nested">
      <legend>{nameOf(p)}</legend>
      <About of={p.schema} />
      {!p.required && (
        <Toggle on={set} name={p.name} onChange={(on) => p.onChange(on ? (startOf(p.schema) ?? {}) : undefined)} />
      )}
      {set && <Fields schema={p.schema} value={p.value} depth={p.depth + 1} onChange={p.onChange} />}
    </fieldset>
  );
}

const Toggle = ({ on, name, onChange }: { on: boolean; name: string; onChange(on: boolean): void }) => (
  <span>
    <button
      type="button"
      class="button small"
      aria-label={`${on ? "Leave out" : "Add"} ${inWords(name, 60)}`}
      onClick={() => onChange(!on)}
    >
      {on ? "Leave out" : "Add"}
    </button>
  </span>
);

function List(p: Props) {
  const items = Array.isArray(p.value) ? (p.value as unknown[]) : [],
    of = schemaOf(p.schema["items"]);
  const most = number(p.schema, "maxItems") ?? 100;
  const put = (to: unknown[]) => p.onChange(to.length || p.required ? to : undefined);
  const fresh =
    kindOf(of, p.depth + 1) === "string" ? "" : kindOf(of, p.depth + 1) === "object" ? (startOf(of) ?? {}) : null;
  return (
    <fieldset class="nested">
      <legend>{nameOf(p)}</legend>
      <About of={p.schema} />
      {items.map((v, i) => (
        <div class="item" key={i}>
          <Value
            schema={of}
            name={`${p.name} ${i + 1}`}
            value={v ?? undefined}
            required
            depth={p.depth + 1}
            onChange={(to) => put(items.with(i, to ?? null))}
          />
          <button
            type="button"
            class="button small"
            aria-label={`Remove ${inWords(p.name, 60)} ${i + 1}`}
            onClick={() => put(items.toSpliced(i, 1))}
          >
            Remove
          </button>
        </div>
      ))}
      <span>
        <button
          type="button"
          class="button small"
          disabled={items.length >= most}
          onClick={() => put([...items, fresh])}
        >
          Add {inWords(p.name, 60)}
        </button>
      </span>
    </fieldset>
  );
}
