// Following feeds of events, and the state of all of them.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Params } from "../api/client";
import { type FeedState, follow } from "../api/events";
import type { ServerEvent } from "../api/parser";

// The states of all feeds of the page, by the hook that follows them.
const feeds = new Map<object, FeedState>();
const watchers = new Set<() => void>();

function tellFeed(of: object, state: FeedState | undefined) {
  if (state) feeds.set(of, state);
  else feeds.delete(of);
  watchers.forEach((tell) => tell());
}

/** useFeeds is the state of all feeds of the page together: live if all are. */
export function useFeeds(): FeedState {
  const [state, set] = useState<FeedState>("connecting");
  useEffect(() => {
    const tell = () => {
      const all = [...feeds.values()];
      set(all.includes("stale") ? "stale" : all.includes("connecting") ? "connecting" : "live");
    };
    watchers.add(tell);
    tell();
    return () => {
      watchers.delete(tell);
    };
  }, []);
  return state;
}

/**
 * useEvents follows a feed while the screen is there, and returns its state. One in the background goes on while the page
 * is hidden. onGap is called when events may have been missed.
 */
export function useEvents(
  path: string,
  params: Params,
  onEvent: (e: ServerEvent) => void,
  onGap: () => void,
  background = false,
): FeedState {
  const [state, set] = useState<FeedState>("connecting");
  const told = useRef({ onEvent, onGap });
  told.current = { onEvent, onGap };
  useEffect(() => {
    const me = {};
    const stop = follow({
      path,
      params,
      background,
      ...(background ? { onAsleep: () => told.current.onGap() } : {}),
      onEvent: (e) => (e.event === "missed" ? told.current.onGap() : told.current.onEvent(e)),
      onState: (s) => {
        // A feed reports events from now on. The list is read again for what happened before.
        if (s === "live") told.current.onGap();
        tellFeed(me, s);
        set(s);
      },
    });
    return () => {
      stop();
      tellFeed(me, undefined);
    };
  }, [path, JSON.stringify(params)]);
  return state;
}
