// The clock of the page: one timer for all that shows time.
import { useLayoutEffect, useReducer, useRef } from "preact/hooks";
import { now } from "../api/client";

const listeners = new Set<() => void>();
let timer: number | undefined;

function tick() {
  for (const listener of listeners) listener();
}

/** start runs the timer while something shows time and the page is in sight. */
function start() {
  const wanted = listeners.size > 0 && document.visibilityState === "visible";
  if (wanted && timer === undefined) timer = window.setInterval(tick, 1000);
  if (!wanted) {
    window.clearInterval(timer);
    timer = undefined;
  }
}

document.addEventListener("visibilitychange", () => {
  start();
  if (timer !== undefined) tick();
});

/** useClock returns what is shown of the gateway's time in ms. The part is rendered again when that changes. */
export function useClock<T>(shown: (time: number) => T): T {
  const [, render] = useReducer((n: number) => n + 1, 0);
  const value = shown(now());
  const last = useRef({ shown, value });
  last.current = { shown, value };
  useLayoutEffect(() => {
    const listener = () => {
      if (!Object.is(last.current.shown(now()), last.current.value)) render(0);
    };
    listeners.add(listener);
    start();
    return () => {
      listeners.delete(listener);
      start();
    };
  }, []);
  return value;
}

/** useNow is the gateway's time in ms, again every so many ms. */
export function useNow(every = 1000): number {
  useClock((time) => Math.floor(time / every));
  return now();
}
