// Lists of any length: found at the gateway, shared by their address, saved as files; and the small things of a screen.
import { readFile } from "node:fs/promises";
import { layout, serious } from "../check.mjs";

const ago = (s) => new Date(Date.now() - s * 1000).toISOString();
const backend = (f, n, failing) => ({
  name: `fleets/${f}/backends/10.0.${n}.1:1`,
  addr: `10.0.${n}.1:1`,
  state: failing ? "down" : "up",
  why: failing ? "connection refused" : undefined,
  since: ago(240),
  usable: !failing,
  weight: 100,
  in_flight: 0,
  latency_ms: 1,
});
const padded = (i) => `c${String(i).padStart(3, "0")}`;
const fleet = (i, failing, of = 5) => ({
  name: `fleets/${padded(i)}`,
  capability: padded(i),
  usable: failing ? 49 : 50,
  backend_count: 50,
  failing_count: failing ? 1 : 0,
  backends: Array.from({ length: of }, (_, n) => backend(padded(i), n, failing && n === 0)),
});
const total = 500;
const all = [fleet(450, true), ...Array.from({ length: total }, (_, i) => fleet(i)).filter((_, i) => i !== 450)];

/** page answers with a part of a list that has the words of the query. */
const page = (items, field, query, more = {}) => {
  const words = (query.get("query") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const found = items.filter((i) => words.every((w) => JSON.stringify(i).toLowerCase().includes(w)));
  const from = Number(query.get("page_token") || 0),
    size = Number(query.get("page_size") || 100);
  const next = from + size < found.length ? String(from + size) : "";
  return { [field]: found.slice(from, from + size), next_page_token: next, total_size: found.length, ...more };
};

const nodes = (p) => p.evaluate(() => document.querySelectorAll("main *").length);

export default async ({ context, args, phone }) => {
  const [origin] = args.origins;
  const c = await context({ viewport: { width: 1280, height: 860 }, acceptDownloads: true });
  const p = await c.newPage();
  const dialog = p.getByRole("dialog");
  const saw = { wrong: [] };
  const serve = (path, answer) =>
    p.route(
      (url) => url.pathname === path,
      (route) => route.fulfill({ json: answer(new URL(route.request().url()).searchParams, route.request()) }),
    );
  await serve("/v1/fleets", (q) => {
    const some = q.get("capability") ? all.filter((f) => f.capability === q.get("capability")) : all;
    const fits = some.filter((f) => q.get("state") !== "failing" || f.failing_count);
    return page(fits, "fleets", q, { gateway: { replica: "gw", redis: "ok" }, failing_count: 1 });
  });
  const tools = Array.from({ length: 5000 }, (_, i) => ({
    capability: `cap${String(i % 500).padStart(3, "0")}`,
    tool: `tool_${i}`,
    description: `The tool ${i}. It does what its name says. `.repeat(4),
    policy: i === 4499 ? "block" : "ask",
    level: "tenant",
  })).sort((a, b) => (a.capability < b.capability ? -1 : a.capability > b.capability ? 1 : a.tool < b.tool ? -1 : 1));
  const having = (q) => tools.filter((t) => !q.get("policy") || t.policy === q.get("policy"));
  await serve("/v1/playground/tools", (q) => page(having(q), "tools", q));
  await serve("/v1/capabilities", () => ({ capabilities: [] }));

  // What the page computes, in seconds, apart from what other programs of the machine do meanwhile.
  const cdp = await c.newCDPSession(p);
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
  const taken = async () => {
    const { metrics } = await cdp.send("Performance.getMetrics");
    const of = (name) => metrics.find((m) => m.name === name).value;
    return [of("TaskDuration"), of("Timestamp")];
  };

  // Which backend is down, since when and why: one click from the start, and nothing to scroll.
  await p.goto(origin + "/#/");
  await p.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  const [began] = await taken();
  await p.getByRole("link", { name: "Fleets", exact: true }).first().click();
  const down = p.getByRole("row", { name: /down/ }).first();
  await down.waitFor();
  saw.fleets = (await taken())[0] - began;
  saw.down = (await down.innerText()).replace(/\s+/g, " ");
  saw.inSight = await down.evaluate((e) => e.getBoundingClientRect().bottom < window.innerHeight);
  saw.fleetNodes = await nodes(p);
  saw.about = await p.locator(".screen-head p").innerText();
  saw.more = await p.getByRole("link", { name: /^45 more/ }).count();

  // Idle: the share of a core that the page takes while nothing happens but its polls.
  const poll = () => p.waitForResponse((r) => new URL(r.url()).pathname === "/v1/fleets");
  await poll();
  const [work, from] = await taken();
  for (let i = 0; i < 3; i++) await poll();
  const [more, to] = await taken();
  saw.idle = (more - work) / (to - from);

  // Any part of a name finds a fleet, whichever page it is on; the address is a link, and back undoes.
  const search = p.getByRole("searchbox", { name: /^Search by capability/ });
  await search.fill("C49");
  await p.getByRole("link", { name: "c490", exact: true }).waitFor();
  saw.found = await p.locator(".screen-head p").innerText();
  saw.address = new URL(p.url()).hash;
  const other = await c.newPage();
  await other.route(
    (url) => url.pathname === "/v1/fleets",
    (route) =>
      route.fulfill({
        json: page(all, "fleets", new URL(route.request().url()).searchParams, {
          gateway: { replica: "gw", redis: "ok" },
          failing_count: 0,
        }),
      }),
  );
  await other.goto(p.url());
  await other.getByRole("link", { name: "c490", exact: true }).waitFor();
  saw.shared = await other.getByRole("searchbox").first().inputValue();
  await other.close();
  await p.goBack();
  await down.waitFor();
  saw.back = await search.inputValue();

  // By name, the one that fails has its place among the others.
  const ordered = p.waitForRequest((r) => /\/fleets\?(?!.*order_by=failing)/.test(r.url()));
  await p.getByLabel("Order").selectOption("by name");
  await ordered;
  const back = p.waitForResponse((r) => /\/fleets\?.*order_by=failing/.test(r.url()));
  await p.getByLabel("Order").selectOption("failing first");
  await back;
  await p.locator(".more").waitFor();

  // The end of the list: all of it is there, and what is not in sight is not in the page.
  const scroll = () => {
    window.scrollTo(0, document.documentElement.scrollHeight);
    return !document.querySelector(".more");
  };
  await p.waitForFunction(scroll, undefined, { polling: 100 });
  await p.evaluate(scroll);
  await p.getByRole("link", { name: "c499", exact: true }).waitFor();
  saw.nodesAtEnd = await nodes(p);

  // 5,000 tools.
  const [opened] = await taken();
  await p.getByRole("link", { name: "Tools", exact: true }).first().click();
  await p.getByRole("link", { name: "tool_0", exact: true }).waitFor();
  saw.tools = (await taken())[0] - opened;
  saw.toolNodes = await nodes(p);
  await p.getByRole("searchbox", { name: "Search tools" }).fill("TOOL_4999");
  await p.getByRole("link", { name: "tool_4999" }).first().waitFor();
  saw.toolsAbout = await p.locator(".screen-head p").innerText();

  // The blocked one of them, by its policy.
  await p.getByRole("searchbox", { name: "Search tools" }).fill("");
  await p.getByLabel("Policy", { exact: true }).selectOption("block");
  await p.getByRole("link", { name: "tool_4499", exact: true }).waitFor();
  await p.getByText("1 tool", { exact: true }).waitFor();
  saw.blocked = await p.evaluate(() => location.hash);

  // Connect has the first of them, and finds the last.
  await p.evaluate(() => {
    location.hash = "#/connect";
  });
  const usable = p.locator(".usable button"),
    find = p.getByRole("searchbox", { name: "Find a tool" });
  await usable.first().waitFor();
  saw.usable = await p.getByRole("heading", { name: "Tools for callers" }).innerText();
  await find.fill("TOOL_4999");
  await usable.filter({ hasText: "tool_4999" }).waitFor();
  await find.fill("tool_none");
  await p.getByText("No tools match.").waitFor();

  // One box, by keys alone. The texts of others stay texts.
  await p.evaluate(() => document.activeElement?.blur());
  await p.keyboard.press("/");
  await dialog.getByRole("combobox", { name: "Find" }).waitFor();
  await p.keyboard.type("c450");
  await dialog.getByRole("option", { name: /Fleet\s*c450/ }).waitFor();
  saw.wrong.push(...(await layout(p)), ...(await serious(p)));
  await p.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await p.keyboard.press("Control+k");
  await p.keyboard.type("webh");
  await dialog.getByRole("option", { name: /Page\s*Webhooks/ }).waitFor();
  await p.keyboard.press("Enter");
  await p.getByRole("heading", { level: 1, name: "Webhooks" }).waitFor();

  // What is not among the last calls can be searched in those of the last days.
  await serve("/v1/calls", () => ({ calls: [] }));
  await p.keyboard.press("/");
  await p.keyboard.type("req-of-last-week");
  await dialog.getByRole("option", { name: /last 7 days with req-of-last-week/ }).click();
  await p.getByRole("heading", { level: 1, name: "Calls" }).waitFor();
  saw.past = new URL(p.url()).hash;

  // All dead letters, in two clicks.
  await p.evaluate(() => {
    location.hash = "#/webhooks";
  });
  await serve("/v1/webhooks/dead:retry", () => ({ retried: 274, more: false }));
  await p.getByRole("button", { name: "Retry all" }).click();
  const sent = p.waitForRequest((r) => r.method() === "POST");
  await dialog.getByRole("button", { name: "Retry all" }).click();
  saw.retried = new URL((await sent).url()).pathname;
  await p.getByText("274 events wait for another delivery.").waitFor();

  // A file has all pages, and no text that a spreadsheet runs.
  const changes = Array.from({ length: 250 }, (_, i) => ({
    id: `c${i}`,
    actor: i === 249 ? '=HYPERLINK("http://evil","x")' : "ann",
    what: "rule.set",
    targets: [],
  }));
  await serve("/v1/audit", (q) => page(changes, "changes", q));
  await p.getByRole("link", { name: "Audit", exact: true }).first().click();
  const save = async (format) => {
    await p.getByRole("button", { name: "Export" }).click();
    const download = p.waitForEvent("download");
    await dialog.getByRole("button", { name: format }).click();
    const file = await download;
    await dialog.waitFor({ state: "detached" });
    return [file.suggestedFilename(), await readFile(await file.path(), "utf8")];
  };
  const [csvName, csv] = await save("CSV"),
    [jsonName, json] = await save("JSON");
  saw.files = [csvName, jsonName];
  saw.rows = [csv.trim().split("\r\n").length, JSON.parse(json).length];
  saw.defused = csv.trim().split("\r\n").at(-1);

  // A table is sorted by a column, with all its pages, also by a link.
  const rows = p.getByRole("table", { name: "Changes" }).locator("tbody tr[data-row]"),
    who = p.getByRole("columnheader", { name: "Who" });
  await who.getByRole("button").click();
  await rows.first().getByText("=HYPERLINK").waitFor();
  await p.reload();
  await rows.first().getByText("=HYPERLINK").waitFor();
  saw.sorted = [new URL(p.url()).hash, await who.getAttribute("aria-sort")];
  await who.getByRole("button").click();
  await rows.first().getByText("ann").waitFor();
  saw.sorted.push(new URL(p.url()).hash, await who.getAttribute("aria-sort"));
  saw.wrong.push(...(await layout(p)), ...(await serious(p)));

  // Approvals that wait are a list, too.
  await p.evaluate(() => {
    location.hash = "#/inbox";
  });
  const [, waiting] = await save("JSON");
  saw.waiting = JSON.parse(waiting).map((a) => a.state);

  // A key that is shown once stays until its own button closes it.
  await p.evaluate(() => {
    location.hash = "#/tenants/acme";
  });
  const searched = p.waitForRequest((r) => /\/keys\?.*query=ci\b/.test(r.url()));
  await p.getByRole("searchbox", { name: "Search keys" }).fill("ci");
  await searched;
  await p.getByRole("button", { name: "Create a key" }).click();
  await dialog.getByRole("button", { name: "Create", exact: true }).click();
  const secret = dialog.locator("code.secret");
  await secret.waitFor();
  for (let i = 0; i < 3; i++) await p.keyboard.press("Escape");
  await p.mouse.click(5, 5);
  saw.kept = await secret.isVisible();
  saw.curl = (await dialog.locator("pre.code").innerText()).includes(await secret.innerText());
  saw.wrong.push(...(await layout(p)), ...(await serious(p)));
  await dialog.getByRole("button", { name: "I have copied it" }).click();
  await dialog.waitFor({ state: "detached" });

  // The parts of a screen take arrow keys.
  await p.evaluate(() => {
    location.hash = "#/policies";
  });
  await p.getByRole("link", { name: "Rules", exact: true }).focus();
  await p.keyboard.press("ArrowRight");
  saw.arrow = await p.evaluate(() => document.activeElement.textContent);

  // Single keys are switched off, and stay off.
  await p.evaluate(() => document.activeElement.blur());
  await p.keyboard.press("?");
  await dialog.getByLabel(/^Single-key/).uncheck();
  await p.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await p.reload();
  await p.getByRole("heading", { level: 1, name: "Policies" }).waitFor();
  for (const key of ["?", "/", "g", "h", "t"]) await p.keyboard.press(key);
  saw.off = [await dialog.count(), new URL(p.url()).hash.split("?")[0]];
  await p.keyboard.press("Control+k");
  await dialog.getByRole("combobox").waitFor();

  // Where tenants cannot be created, no button offers it.
  await serve("/v1/tenants", () => ({ tenants: [{ id: "acme" }] }));
  await p.goto(origin + "/#/tenants");
  await p.reload();
  await p.getByRole("table", { name: "Tenants" }).waitFor();
  saw.create = await p.getByRole("button", { name: "Create a tenant" }).count();

  // On a phone, the box is reached by a button.
  const small = await (await context(phone)).newPage();
  await small.goto(origin + "/#/audit");
  await small.getByLabel("Sort by").selectOption("Who ↓"); // a phone has no titles to press
  await small
    .getByRole("table", { name: "Changes" })
    .locator("tbody tr[data-row]")
    .first()
    .getByText(/^ben@/)
    .waitFor();
  saw.sorted.push(new URL(small.url()).hash);
  await small.getByRole("button", { name: "Find" }).tap();
  await small.getByRole("combobox", { name: "Find" }).fill("mail");
  await small.getByRole("dialog").getByRole("option").first().waitFor();
  saw.wrong.push(...(await layout(small)), ...(await serious(small)));
  return saw;
};
