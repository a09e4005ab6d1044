// What a hidden page does with its connections.

/** How often a hidden page without a connection looks. */
export const glance = 60_000;

/** alone calls f with whether this page is the only one that holds the name, and holds it until the signal. */
export async function alone(name: string, signal: AbortSignal, f: (held: boolean) => void) {
  if (!navigator.locks) {
    f(false); // only secure origins have locks
    return;
  }
  const held = (lock: Lock | null) => {
    if (signal.aborted) return;
    f(lock !== null);
    return lock && new Promise<void>((done) => signal.addEventListener("abort", () => done()));
  };
  await navigator.locks.request(name, { ifAvailable: true }, held).catch(() => f(false));
}
