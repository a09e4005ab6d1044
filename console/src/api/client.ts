// Requests to the gateway that served the page, and its errors.

/** The page that was served: the whole console, the inbox of approvals alone, or the page of callers. */
export const mode =
  (["inbox", "docs"] as const).find(
    (m) => m === document.querySelector<HTMLMetaElement>('meta[name="capgate-page"]')?.content,
  ) ?? "console";

/** The prefix of the API's paths. */
export const base = mode === "inbox" ? "/inbox" : mode === "docs" ? location.pathname.replace(/\/docs\/?$/, "") : "";

/** Problem is an error of the API (RFC 9457), or of the way to it, with status 0. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    readonly detail: string,
    readonly metadata: Record<string, string> = {},
    readonly requestID = "",
  ) {
    super(detail);
  }
}

export type Params = Record<string, string | number | boolean | undefined>;

/** The path of a request, with its parameters. Empty ones are left out. */
export function pathOf(path: string, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return base + path + (text ? "?" + text : "");
}

let credential = "";
/** setCredential keeps the key of a caller, who has no session; empty: none. */
export const setCredential = (key: string) => {
  credential = key;
};

let csrf = "";
/** setCSRF keeps the token that unsafe requests of a session carry. */
export const setCSRF = (token: string) => {
  csrf = token;
};

// The gateway's clock counts for ages and expiry, not that of the machine with the browser.
let skew = 0;
export const now = () => Date.now() + skew;

function setClock(answer: Response) {
  const date = Date.parse(answer.headers.get("Date") ?? "");
  if (Number.isNaN(date)) return;
  // Date has whole seconds: only a difference that cannot come from that counts.
  const off = date + 500 - Date.now();
  skew = Math.abs(off) > 1500 ? off : 0;
}

/** The sign-in page, which leads back to where the person is. */
export function signInPath(): string {
  return base + "/signin?next=" + encodeURIComponent(location.pathname + location.hash);
}

let leaving = false;
function signIn() {
  if (leaving) return;
  leaving = true;
  // The sign-in page says that a session has ended, where there was one.
  location.assign(signInPath() + (csrf ? "&ended=1" : ""));
}
// A page that the browser kept shows what its person saw before the end of the session.
window.addEventListener("pageshow", (e) => {
  if (e.persisted && leaving) location.reload();
});

const away = "The gateway does not respond.";
const unknown = "It may or may not have received this change: check the current state, then try again.";
const isRead = (init: RequestInit) => !init.method || init.method === "GET";

/** raw sends a request and returns a successful response, or throws a Problem. */
export async function raw(path: string, init: RequestInit = {}, params: Params = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (!headers.has("Accept")) headers.set("Accept", "application/json");
  if (!isRead(init) && csrf) headers.set("X-CSRF-Token", csrf);
  if (credential) headers.set("Authorization", "Bearer " + credential);
  let answer: Response;
  try {
    answer = await fetch(pathOf(path, params), { credentials: "same-origin", redirect: "error", ...init, headers });
  } catch (err) {
    if (init.signal?.aborted) throw err;
    throw new Problem(0, "GATEWAY_AWAY", isRead(init) ? away : `${away} ${unknown}`);
  }
  setClock(answer);
  if (answer.ok) return answer;
  const problem = await problemOf(answer);
  if (answer.status === 401 && mode !== "docs") signIn();
  throw problem;
}

async function problemOf(answer: Response): Promise<Problem> {
  let body: Record<string, unknown> = {};
  try {
    const read: unknown = await answer.json();
    if (read && typeof read === "object") body = read as Record<string, unknown>;
  } catch {
    /* not JSON: the status says enough */
  }
  const text = (name: string) => (typeof body[name] === "string" ? (body[name] as string) : "");
  return new Problem(
    answer.status,
    text("reason"),
    text("detail") || `The gateway answers ${answer.status}.`,
    (body["metadata"] as Record<string, string>) ?? {},
    text("request_id"),
  );
}

export async function get<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<T> {
  return (await (await raw(path, signal ? { signal } : {}, params)).json()) as T;
}

export async function post<T>(path: string, body: unknown = {}): Promise<T> {
  return send<T>("POST", path, body);
}

export async function send<T>(method: string, path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { method };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "Content-Type": "application/json" };
  }
  const text = await (await raw(path, init)).text();
  return (text ? JSON.parse(text) : undefined) as T;
}
