// The order of what Find has found.

interface Named {
  kind: string;
  text: string;
  also?: string;
}

/** inOrder puts what has exactly the name first, then other names, then calls and traces. */
export function inOrder<T extends Named>(found: T[], query: string): T[] {
  const wanted = query.trim().toLowerCase();
  const rank = (f: T) =>
    [f.text, f.also].some((name) => name?.toLowerCase() === wanted) ? 0 : ["Call", "Trace"].includes(f.kind) ? 2 : 1;
  return found
    .map((f) => [rank(f), f] as const)
    .sort((a, b) => a[0] - b[0])
    .map(([, f]) => f);
}
