// Doing something once for many events.

/** Throttle does something at most once in so many ms. */
export interface Throttle {
  /** ask lets it be done at the end of the time, however often it is asked for until then. */
  ask(): void;
  stop(): void;
}

export function throttle(run: () => void, ms: number): Throttle {
  let timer: ReturnType<typeof setTimeout> | undefined;
  return {
    ask: () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        run();
      }, ms);
    },
    stop: () => {
      clearTimeout(timer);
      timer = undefined;
    },
  };
}
