// Shows openapi.json, and loads it again when the caller gives a key: it then has that caller's tools. The key stays
// in the memory of the page.
"use strict";

const address = "openapi.json"; // relative to this page
const $ = (id) => document.getElementById(id);
let headers = {}; // of every request
let ui = null;

const dark = matchMedia("(prefers-color-scheme: dark)");
const shade = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", shade);
shade();

// A padlock leads to the form for the key.
const locks = () => ({
  statePlugins: { auth: { wrapActions: { showDefinitions: () => () => {
    $("secret").focus();
    return { type: "none" };
  } } } },
});

function show(text) {
  if (ui) {
    ui.specActions.updateSpec(text);
    return;
  }
  ui = SwaggerUIBundle({
    dom_id: "#page",
    spec: JSON.parse(text),
    plugins: [locks],
    validatorUrl: null, // no requests to other sites
    tryItOutEnabled: true,
    defaultModelsExpandDepth: -1,
    docExpansion: "list",
    requestInterceptor: (request) => {
      Object.assign(request.headers, headers);
      request.userFetch = liveFetch;
      return request;
    },
  });
}

function say(text, wrong) {
  $("said").textContent = text;
  $("said").classList.toggle("wrong", Boolean(wrong));
  $("secret").setAttribute("aria-invalid", String(Boolean(wrong)));
}

// forgeryToken returns the headers for requests with the page's cookie at the admin API, which has a token against forgery.
async function forgeryToken(doc) {
  if (!doc.paths?.["/v1/me"]) return {};
  const me = await fetch("v1/me");
  const token = me.ok ? (await me.json()).csrf_token : "";
  return token ? { "X-CSRF-Token": token } : {};
}

// load shows the document for a key, or without one. It returns whether the gateway accepts the key.
async function load(key) {
  const credential = key ? { Authorization: "Bearer " + key } : {};
  let response;
  try {
    response = await fetch(address, { headers: credential });
  } catch {
    $("key").hidden = false;
    say("The gateway does not answer. Load the page again when it does.", true);
    return false;
  }
  const text = await response.text();
  if (!response.ok) {
    let detail = "";
    try { detail = JSON.parse(text).detail ?? ""; } catch { /* it is no problem document */ }
    $("key").hidden = false;
    const refused = response.status === 401 || response.status === 403;
    say((refused ? "This key is not accepted: " : "The document cannot be shown: ") +
      (detail || response.statusText) + ". Enter another key.", true);
    return false;
  }
  const doc = JSON.parse(text);
  headers = { ...credential, ...await forgeryToken(doc) };
  const asks = Object.keys(doc.components?.securitySchemes ?? {}).length > 0;
  $("key").hidden = !asks;
  $("forget").hidden = !key;
  say(key ? "The key is accepted: these are its tools." : "Your tools are shown after you give a key.");
  show(text);
  return true;
}

$("key").addEventListener("submit", async (event) => {
  event.preventDefault();
  const key = $("secret").value.trim();
  if (!/^[\x21-\x7e]+$/.test(key)) {
    say("This is not a key: a key has no spaces or other special characters.", true);
  } else if (await load(key)) {
    $("secret").value = "";
  } else {
    $("secret").select();
    if (!ui) await load("");
  }
});
$("forget").addEventListener("click", () => load(""));

// Shows a stream while it comes: Swagger UI shows an answer at its end. The text goes to the page as text alone.

const livePage = 256 * 1024; // characters that are shown; older ones go
const liveWhole = 4 * 1024 * 1024; // characters for Swagger UI at the end
let asking = null; // the operation whose button was pressed last

document.addEventListener("click", (event) => {
  const button = event.target.closest?.(".execute");
  if (button) asking = button.closest(".opblock");
}, true);

// panel makes the place for a stream, at the end of its operation.
function panel(stop) {
  asking?.querySelector(".live")?.remove();
  const place = document.createElement("section");
  place.className = "live";
  place.setAttribute("aria-label", "stream");
  const title = document.createElement("strong");
  title.textContent = "The stream, as it comes ";
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Stop";
  button.addEventListener("click", stop);
  const text = document.createElement("pre");
  text.tabIndex = 0;
  place.append(title, button, text);
  (asking?.querySelector(".opblock-body") ?? document.getElementById("page")).append(place);
  return { text, end: (how) => { button.remove(); title.textContent = "The stream " + how; } };
}

// liveFetch is fetch, for Swagger UI. It shows the parts of a stream, and returns all of it at the end.
async function liveFetch(url, options) {
  const ended = new AbortController();
  const response = await fetch(url, { ...options, signal: ended.signal });
  const type = response.headers.get("Content-Type") ?? "";
  if (!/^(text\/event-stream|application\/x-ndjson)/.test(type) || !response.body) {
    asking?.querySelector(".live")?.remove();
    return response;
  }
  const shown = panel(() => ended.abort());
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let whole = "", how = "has ended";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const part = decoder.decode(value, { stream: true });
      if (whole.length < liveWhole) whole += part;
      shown.text.textContent = (shown.text.textContent + part).slice(-livePage);
      shown.text.scrollTop = shown.text.scrollHeight;
    }
  } catch {
    how = ended.signal.aborted ? "was stopped" : "was cut off: the connection was lost before its end";
  }
  shown.end(how);
  const { status, statusText, headers: of } = response;
  const all = new Response(whole, { status, statusText, headers: of });
  Object.defineProperty(all, "url", { value: response.url });
  return all;
}

load("");
