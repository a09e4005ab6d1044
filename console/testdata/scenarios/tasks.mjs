// What people come to the console for, at a running gateway, each with its clicks and pasted texts, from Home, or from
// the Inbox for approvers. The texts are what the person wanted to know.
import { counting } from "../count.mjs";
import { invoke, post } from "../gateway.mjs";

export default async ({ context, args }) => {
  const [admin] = args.origins;
  const tasks = {};
  await post(admin, "/v1/tenants", { id: "acme", capabilities: ["*"] });
  await post(admin, "/v1/tenants", { id: "busy", capabilities: ["*"], limits: { per_month: 10 } });
  const caller = { scopes: ["invoke", "read"], asserts: ["user", "agent"] };
  const { credential } = await (await post(admin, "/v1/tenants/acme/keys", caller)).json();
  const call = (capability, of, more) =>
    invoke(args.public, capability, of, 0, { Authorization: `Bearer ${credential}`, ...more });
  const busy = await (await post(admin, "/v1/tenants/busy/keys", caller)).json();
  for (let n = 0; n < 9; n++) await call("open", { n }, { Authorization: `Bearer ${busy.credential}` });

  /** task counts one task, in a window of its own. It returns what the person saw at its end. */
  async function task(name, start, steps) {
    const c = await context({ viewport: { width: 1280, height: 860 } });
    const page = await c.newPage();
    await page.goto(`${admin}/#/${start}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    const by = counting(page);
    const saw = await steps({ page, by, dialog: page.getByRole("dialog") });
    tasks[name] = { clicks: by.clicks, texts: by.texts, saw: saw.replace(/\s+/g, " ") };
    await c.close();
  }
  const nav = (page, title) =>
    page.getByRole("navigation", { name: "Screens" }).getByRole("link", { name: new RegExp(`^${title}`) });
  const attention = (page, text) => page.locator(".attention li", { hasText: text });

  await task("down", "", async ({ page, by }) => {
    await by.click(attention(page, "half").getByRole("link"));
    const row = page.getByRole("row", { name: /down/ });
    await row.waitFor();
    return row.innerText();
  });

  // 30 calls of 30 users wait, and ten that are alike.
  const calls = [];
  for (let n = 0; n < 30; n++) calls.push(call("asks", { [`n${n}`]: "all of it" }, { "x-user-id": `person-${n}` }));
  for (let n = 0; n < 10; n++) calls.push(call("asks", { alike: n }, { "x-user-id": "same", "x-agent-id": "same" }));
  for (const answer of await Promise.all(calls)) if (answer.status !== 202) throw new Error(await answer.text());
  await call("open", { n: 1 });

  await task("approve", "inbox", async ({ page, by, dialog }) => {
    const card = page.locator("article.approval", { hasText: "person-7" });
    await page.waitForFunction(
      () => {
        window.scrollBy(0, 300);
        return [...document.querySelectorAll("article.approval")].some((e) => /person-7\b/.test(e.innerText));
      },
      undefined,
      { polling: 50 },
    );
    const shown = await card.innerText();
    await by.click(by.button("Approve", card));
    await by.click(by.button("Approve once", dialog));
    await dialog.waitFor({ state: "detached" });
    return shown;
  });
  await task("deny", "inbox", async ({ page, by, dialog }) => {
    const card = page.locator("article.approval:not(.alike)[data-state=pending]").first();
    const id = await card.getAttribute("data-id");
    await by.click(by.button("Deny", card));
    await by.click(dialog.getByLabel(/Reason/));
    await by.paste("not today");
    await by.click(by.button("Deny once", dialog));
    await dialog.waitFor({ state: "detached" });
    return JSON.stringify(await (await fetch(`${admin}/v1/approvals/${id}?tenant=acme`)).json());
  });
  await task("alike", "inbox", async ({ page, by, dialog }) => {
    const group = page.locator("article.alike");
    await page.waitForFunction(
      () => {
        window.scrollBy(0, 300);
        return document.querySelector("article.alike");
      },
      undefined,
      { polling: 50 },
    );
    await by.click(by.button("Answer 10 together", group));
    const region = dialog.getByRole("region", { name: "All arguments" });
    await region.waitFor();
    await region.evaluate((e) => e.scrollTo(0, e.scrollHeight)); // a wheel or a finger
    await dialog.locator("button.approve:enabled").waitFor();
    await by.click(by.button("Approve 10", dialog));
    await dialog.waitFor({ state: "detached" });
    const { approvals } = await (await fetch(`${admin}/v1/approvals?tenant=acme&user=same&page_size=50`)).json();
    return approvals.map((a) => a.state).join(" ");
  });

  // A call was refused. Its caller has only the id of the request.
  const refused = await call("nosuch", {}, { "x-user-id": "someone" });
  const request = refused.headers.get("x-request-id");
  await task("request", "", async ({ by, dialog }) => {
    await by.click(by.button("Find"));
    await by.paste(request);
    const found = dialog.getByRole("option", { name: /^Call/ });
    await found.waitFor();
    return found.innerText();
  });

  await task("key", "", async ({ by, page, dialog }) => {
    await by.click(nav(page, "Tenants"));
    await by.click(page.getByRole("link", { name: "acme", exact: true }));
    await by.click(by.button("Create a key"));
    await by.click(by.button("Create", dialog).and(dialog.locator(".primary")));
    const curl = dialog.locator("pre.code");
    await curl.waitFor();
    const [, url, header] = (await curl.innerText()).match(/'(http[^']+)'[^']*'([^']+)'/s);
    const answer = await fetch(url, { headers: { Authorization: header.replace(/^Authorization: /, "") } });
    return `${answer.status} ${await answer.text()}`;
  });

  await task("rule", "", async ({ by, page, dialog }) => {
    await by.click(nav(page, "Policies"));
    await by.click(page.getByRole("link", { name: "Candidates" }));
    await by.click(by.button("Set a candidate"));
    await dialog.getByLabel("Tenant", { exact: true }).focus();
    await by.paste("acme");
    await dialog.getByLabel("Capability").focus();
    await by.paste("open");
    await dialog.getByLabel("Tool").focus();
    await by.paste("echo");
    await by.choose(dialog.getByLabel("Policy"), "block");
    await by.click(by.button("Set the candidate", dialog));
    const change = page.getByRole("table", { name: "What would change" }).locator("tbody tr", { hasText: "echo" });
    await change.first().waitFor();
    return change.first().innerText();
  });

  await post(args.control, "/change");
  await task("change", "", async ({ by, page, dialog }) => {
    await by.click(attention(page, "changes").getByRole("link"));
    await page
      .locator("ul.diff, a", { hasText: /Changed|See what changed/ })
      .first()
      .waitFor();
    const see = page.getByRole("link", { name: /^See what changed/ });
    if (await see.count()) await by.click(see);
    const diff = page.locator("ul.diff");
    await diff.waitFor();
    const difference = await diff.innerText();
    await by.click(by.button("Accept this version"));
    await by.click(by.button("Accept", dialog));
    await diff.waitFor({ state: "detached" });
    return difference;
  });

  await task("letters", "", async ({ by, page, dialog }) => {
    await by.click(by.button("Retry all", attention(page, /notice/)));
    await by.click(by.button("Retry all", dialog));
    const said = page.getByText(/wait for another delivery/);
    await said.waitFor();
    return said.innerText();
  });

  await task("near", "", async ({ by, page }) => {
    await by.click(attention(page, "busy").getByRole("link"));
    const near = page.getByRole("region", { name: "Near a limit" });
    await near.waitFor();
    return near.innerText();
  });
  return tasks;
};
