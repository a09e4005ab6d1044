// Server-sent events (WHATWG HTML §9.2), read by fetch: EventSource tells neither of comments, by which a silent
// connection differs from a dead one, nor why a connection failed.
import { type Params, Problem, raw } from "./client";
import { parser, type ServerEvent } from "./parser";

/** The states of a feed: live, or on the way to it. */
export type FeedState = "connecting" | "live" | "stale";

export interface Feed {
  path: string;
  params?: Params;
  onEvent(e: ServerEvent): void;
  onState(s: FeedState): void;
}

// The gateway sends something every 15 s.
const silence = 40_000;

/** follow reads a feed until stop is called. It reconnects, with the id of the last event. */
export function follow(feed: Feed): () => void {
  let stopped = false,
    running = false,
    last = "",
    tries = 0,
    timer: number | undefined;
  let connection = new AbortController();
  let hidden: number | undefined,
    asleep = false;
  const run = async () => {
    if (stopped || running) return;
    running = true;
    connection = new AbortController();
    const { signal } = connection;
    let quiet: number | undefined;
    const heard = () => {
      window.clearTimeout(quiet);
      quiet = window.setTimeout(() => connection.abort(), silence);
    };
    try {
      heard();
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (last) headers["Last-Event-ID"] = last;
      const answer = await raw(feed.path, { headers, signal, cache: "no-store" }, feed.params);
      const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
      const parse = parser(feed.onEvent, (id) => {
        last = id;
      });
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        if (tries >= 0) {
          tries = -1;
          feed.onState("live");
        }
        heard();
        parse(value);
      }
    } catch (err) {
      // The gateway refuses a request with an id that it no longer has.
      if (err instanceof Problem && err.status === 400) last = "";
    } finally {
      window.clearTimeout(quiet);
      running = false;
    }
    if (stopped) return;
    if (asleep) {
      tries = Math.max(tries, 0);
      feed.onState("stale");
      return;
    }
    tries = Math.max(tries, 0) + 1;
    feed.onState("stale");
    timer = window.setTimeout(run, Math.min(500 * 2 ** (tries - 1), 10_000) * (0.75 + Math.random() / 2));
  };
  // A page that is not seen gives its connection back, since a browser has few. A phone that wakes up has a dead one.
  const awake = () => {
    window.clearTimeout(hidden);
    if (document.visibilityState !== "visible") {
      hidden = window.setTimeout(() => {
        asleep = true;
        connection.abort();
      }, 30_000);
      return;
    }
    if (!asleep && tries < 1) return;
    asleep = false;
    window.clearTimeout(timer);
    void run();
  };
  document.addEventListener("visibilitychange", awake);
  window.addEventListener("online", awake);
  feed.onState("connecting");
  void run();
  return () => {
    stopped = true;
    window.clearTimeout(timer);
    window.clearTimeout(hidden);
    connection.abort();
    document.removeEventListener("visibilitychange", awake);
    window.removeEventListener("online", awake);
  };
}
