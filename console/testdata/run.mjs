// Runs scenarios in one Chromium, several at a time. All names under attacker.example are this machine.
// node run.mjs CHROMIUM; then each line of the input is {id, scenario, args}, and each of the output is {id, saw} or
// {id, error}. The first line of the output says that the browser runs.
import processes from "node:child_process";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

// Chromium stays in the session of the test. Linux schedules a session of its own as one (sched_autogroup), and gave
// that of Chromium nothing for minutes while other processes of the test were busy.
const { spawn } = processes;
processes.spawn = (program, args, options) => spawn(program, args, { ...options, detached: false });

const phone = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
const running = new Set(); // what each scenario saw so far

const browser = await chromium.launch({
  executablePath: process.argv[2],
  headless: true,
  timeout: 300_000,
  args: [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP *.attacker.example 127.0.0.1",
  ],
});

async function run(name, args) {
  const saw = { Complaints: [], Dialogs: [], Foreign: [] },
    contexts = [];
  // Failed requests are part of scenarios; the page tells of them in words.
  const expected = new RegExp(["Failed to load resource", "net::ERR_", ...(args.expected ?? [])].join("|"));

  /** context makes a window of its own: cookies, storage, size. */
  async function context(options = {}) {
    const c = await browser.newContext({ locale: "en-GB", timezoneId: "UTC", reducedMotion: "reduce", ...options });
    contexts.push(c);
    c.setDefaultTimeout(240_000); // a busy machine takes long
    await c.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", (e) =>
        console.error(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sample}`),
      );
    });
    c.on("request", (r) => {
      const url = new URL(r.url());
      if (url.protocol !== "data:" && !args.origins.includes(url.origin)) saw.Foreign.push(r.url());
    });
    c.on("console", (m) => {
      if (["error", "warning"].includes(m.type()) && !expected.test(m.text())) saw.Complaints.push(m.text());
    });
    c.on("weberror", (e) => saw.Complaints.push(`${e.error()} (${e.page()?.url()})`));
    c.on("dialog", (d) => {
      saw.Dialogs.push(d.message());
      d.dismiss().catch(() => {});
    }); // the page may be gone
    return c;
  }

  running.add(saw);
  try {
    const { default: scenario } = await import(`./scenarios/${name}.mjs`);
    saw.Value = (await scenario({ context, args, phone })) ?? null;
  } finally {
    running.delete(saw);
    await Promise.all(contexts.map(close));
  }
  return saw;
}

/** close ends a context that its scenario has left open. Its routes may still have a request in hand. */
async function close(context) {
  if (!browser.contexts().includes(context)) return;
  await Promise.all([context, ...context.pages()].map((of) => of.unrouteAll({ behavior: "ignoreErrors" })));
  await context.close();
}

// Nobody knows whose it is.
process.on("unhandledRejection", (err) =>
  running.forEach((saw) => saw.Complaints.push(`nobody caught: ${err?.stack ?? err}`)),
);

const tell = (line) => console.log(JSON.stringify(line));
tell({});
for await (const line of createInterface({ input: process.stdin })) {
  const { id, scenario, args } = JSON.parse(line);
  run(scenario, args).then(
    (saw) => tell({ id, saw }),
    (err) => tell({ id, error: String(err?.stack ?? err) }),
  );
}
await browser.close();
