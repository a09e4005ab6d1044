// Runs a scenario in a browser that runs already, and prints what it saw as JSON.
// node run.mjs ENDPOINT SCENARIO ARGUMENTS
import { chromium } from "playwright-core";

const [endpoint, name, text] = process.argv.slice(2);
const args = JSON.parse(text);
const saw = { Complaints: [], Dialogs: [], Foreign: [] };
const { default: scenario } = await import(`./scenarios/${name}.mjs`);
const browser = await chromium.connect(endpoint, { timeout: 120_000 });

// Failed requests are part of scenarios; the page tells of them in words.
const expected = new RegExp(["Failed to load resource", "net::ERR_", ...(args.expected ?? [])].join("|"));

/** context makes a window of its own: cookies, storage, size. */
async function context(options = {}) {
  const c = await browser.newContext({ locale: "en-GB", timezoneId: "UTC", reducedMotion: "reduce", ...options });
  c.setDefaultTimeout(60_000);
  await c.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sample}`));
  });
  c.on("request", (r) => {
    const url = new URL(r.url());
    if (url.protocol !== "data:" && !args.origins.includes(url.origin)) saw.Foreign.push(r.url());
  });
  c.on("console", (m) => {
    if (["error", "warning"].includes(m.type()) && !expected.test(m.text())) saw.Complaints.push(m.text());
  });
  c.on("weberror", (e) => saw.Complaints.push(String(e.error())));
  c.on("dialog", (d) => { saw.Dialogs.push(d.message()); void d.dismiss(); });
  return c;
}

export const phone = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
try {
  saw.Value = (await scenario({ context, args, phone })) ?? null;
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
