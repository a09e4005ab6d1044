// Server-sent events (WHATWG HTML §9.2), read by fetch: EventSource tells neither of comments, by which a silent
// connection differs from a dead one, nor why a connection failed.
import { type Params, Problem, pathOf, raw } from "./client";
import { alone, glance } from "./hidden";
import { parser, type ServerEvent } from "./parser";

/** The states of a feed: live, or on the way to it. */
export type FeedState = "connecting" | "live" | "stale";

export interface Feed {
  path: string;
  params?: Params;
  /** The feed goes on while the page is hidden: in one page of a browser at once. */
  background?: boolean;
  onEvent(e: ServerEvent): void;
  onState(s: FeedState): void;
  /** Called every minute while a hidden page has no connection, if the feed is for the background. */
  onAsleep?(): void;
}

// The gateway sends something every 5 s.
const silence = 12_000;

/** follow reads a feed until stop is called. It reconnects, with the id of the last event. */
export function follow(feed: Feed): () => void {
  let stopped = false,
    running = false,
    last = "",
    tries = 0,
    timer: number | undefined;
  let connection = new AbortController();
  let hidden: number | undefined,
    glances: number | undefined,
    asleep = false,
    seen = new AbortController();
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
  const sleep = () => {
    asleep = true;
    connection.abort();
    if (feed.onAsleep) glances = window.setInterval(feed.onAsleep, glance);
  };
  // A page that is not seen gives its connection back, since a browser has few. A phone that wakes up has a dead one.
  const awake = () => {
    window.clearTimeout(hidden);
    window.clearInterval(glances);
    seen.abort();
    if (document.visibilityState !== "visible") {
      seen = new AbortController();
      const { signal } = seen;
      hidden = window.setTimeout(() => {
        if (!feed.background) sleep();
        else
          void alone(pathOf(feed.path, feed.params), signal, (held) => {
            if (!held && !signal.aborted) sleep();
          });
      }, 30_000);
      return;
    }
    if (!asleep && tries < 1) return;
    asleep = false;
    window.clearTimeout(timer);
    void run();
  };
  // A connection may stay silent for long after the machine has lost its network.
  const lost = () => connection.abort();
  document.addEventListener("visibilitychange", awake);
  window.addEventListener("offline", lost);
  window.addEventListener("online", awake);
  feed.onState("connecting");
  void run();
  return () => {
    stopped = true;
    window.clearTimeout(timer);
    window.clearTimeout(hidden);
    window.clearInterval(glances);
    seen.abort();
    connection.abort();
    document.removeEventListener("visibilitychange", awake);
    window.removeEventListener("online", awake);
    window.removeEventListener("offline", lost);
  };
}
