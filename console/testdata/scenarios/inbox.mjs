// The Inbox at work: thousands wait, one of thirty is read and approved, one is denied with a reason, ten alike are
// answered at once, one of them in vain. Each task counts its clicks.
import { approval, serve } from "../approvals.mjs";
import { layout, serious } from "../check.mjs";
import { counting } from "../count.mjs";

async function thousands(context, origin) {
  const c = await context({ viewport: { width: 1280, height: 860 } });
  const page = await c.newPage();
  const all = Array.from({ length: 5000 }, (_, n) =>
    approval(n, {
      tool: `tool_${n % 50}`,
      user: `user-${n % 7}`,
      arguments_json: JSON.stringify({ [`n${n % 90}`]: n }),
    }),
  );
  const api = await serve(page, all);
  const metrics = await c.newCDPSession(page);
  await metrics.send("Performance.enable", { timeDomain: "threadTicks" });
  const read = async () =>
    Object.fromEntries((await metrics.send("Performance.getMetrics")).metrics.map((m) => [m.name, m.value]));
  await page.goto(`${origin}/#/inbox`);
  await page.locator("article.approval").first().waitFor();
  const saw = { busy: (await read()).TaskDuration, title: await page.title(), lists: api.lists.length };
  saw.rest = await page.locator("p.more").innerText();
  saw.nodes = await page.evaluate(() => document.querySelectorAll("*").length);

  // Five seconds on the clock of the page.
  const tick = () =>
    page.evaluate(
      () =>
        new Promise((done) => {
          const watch = new MutationObserver(() => {
            watch.disconnect();
            done();
          });
          watch.observe(document.querySelector(".countdown b"), {
            subtree: true,
            childList: true,
            characterData: true,
          });
        }),
    );
  await tick();
  const [before, from] = [await read(), Date.now()];
  for (let i = 0; i < 5; i++) await tick();
  saw.idle = ((await read()).TaskDuration - before.TaskDuration) / ((Date.now() - from) / 1000);

  // The end of the list brings the next page, which is said.
  await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight));
  await page.getByText("200 waiting are shown, and 4,800 more wait").waitFor();
  await page.getByLabel("Search by tool").fill("tool_31");
  await page.getByRole("status").filter({ hasText: "100 waiting" }).waitFor({ state: "attached" });
  await page.waitForFunction(() =>
    [...document.querySelectorAll("article .dim")].every((e) => !/tool_30/.test(e.innerText)),
  );
  saw.search = api.lists.at(-1).text;
  saw.hash = new URL(page.url()).hash;
  await page.reload();
  await page.locator("article.approval").first().waitFor();
  saw.kept = await page.getByLabel("Search by tool").inputValue();
  await c.close();
  return saw;
}

async function one(context, origin) {
  const page = await (await context({ viewport: { width: 1280, height: 860 } })).newPage();
  const all = Array.from({ length: 30 }, (_, n) =>
    approval(n, { tool: `tool_${n}`, arguments_json: JSON.stringify({ to: `person-${n}`, n }) }),
  );
  all.push(
    approval(40, {
      tool: "tool_7",
      state: "approved",
      answer_time: all[0].create_time,
      answered_by: "eve",
      arguments_json: JSON.stringify({ to: "person-6", n: 7 }),
    }),
  );
  const api = await serve(page, all);
  await page.goto(`${origin}/#/inbox`);
  const card = (n) => page.locator(`article[data-id=apr_${n}]`);
  const { button, ...to } = counting(page);
  await card(7).scrollIntoViewIfNeeded();
  await to.click(button("Approve", card(7)));
  const dialog = page.getByRole("dialog");
  const difference = dialog.locator("details.since-last");
  await difference.waitFor();
  const saw = { difference: await difference.locator("summary").innerText() };
  await to.click(button("Approve once", dialog));
  await page.locator("article[data-id=apr_7][data-state=approved]").waitFor();
  saw.approve = to.clicks;

  to.clicks = 0;
  await card(9).scrollIntoViewIfNeeded();
  await to.click(button("Deny", card(9)));
  await to.click(dialog.getByLabel(/Reason/));
  await page.keyboard.type("not today");
  await to.click(button("Deny once", dialog));
  await page.locator("article[data-id=apr_9][data-state=denied]").waitFor();
  saw.deny = to.clicks;
  saw.answers = api.answers.map((a) => [a.id, a.verb, a.comment]);
  return saw;
}

async function alike(context, origin, phone) {
  const c = await context(phone);
  const page = await c.newPage();
  const all = Array.from({ length: 10 }, (_, n) => approval(n, { reason_required: true }));
  all[3].arguments_excerpt = true; // the whole has more
  all[5].refuse = { reason: "SELF_APPROVAL", detail: "the approver is the user of the call" };
  all.push(approval(20, { tool: "other" }));
  const api = await serve(page, all);
  await page.route(
    (url) => url.pathname.endsWith("/v1/approvals/apr_3"),
    (route) =>
      route.fulfill({
        json: {
          ...all[3],
          arguments_excerpt: false,
          arguments_json: '{"to":"person-3@example.com","subject":"hello, all of it"}',
        },
      }),
  );
  await page.goto(`${origin}/#/inbox`);
  const { button, ...to } = counting(page);
  const group = page.locator("article.alike");
  await group.waitFor();
  const saw = { group: await group.innerText(), cards: await page.locator("article.approval:not(.alike)").count() };
  await to.click(button("Answer 10 together", group));
  const dialog = page.getByRole("dialog");
  await dialog.getByText("hello, all of it").waitFor();
  saw.found = [...(await layout(page)), ...(await serious(page))];
  const approve = button(/^Approve \d+$/, dialog);
  saw.before = await approve.isDisabled();
  const region = dialog.getByRole("region", { name: "All arguments" });
  saw.shown = await region.innerText();
  await region.evaluate((e) => e.scrollTo(0, e.scrollHeight)); // a wheel or a finger
  await dialog.locator("button.approve:enabled").waitFor();
  await to.click(approve);
  await dialog.getByText("One answer failed:").waitFor();
  saw.clicks = to.clicks;
  saw.failed = await dialog.locator(".failure li").allInnerTexts();
  saw.answers = api.answers.map((a) => `${a.verb} ${a.id}`).sort();
  saw.open = await dialog.isVisible();
  return saw;
}

// Some that are not alike are chosen, by the mouse and by keys, and answered at once. One of them may only be denied, and
// one is not the person's to answer.
async function chosen(context, origin, phone) {
  const all = Array.from({ length: 8 }, (_, n) =>
    approval(n, { tool: `tool_${n}`, arguments_json: JSON.stringify({ [`n${n}`]: `value ${n}` }) }),
  );
  all[2].may_not_approve_why = "the key that encrypts its arguments is not configured";
  all[3].may_not_answer_why = "the approver is the user of the call";
  const saw = { found: [] };
  const open = async (options) => {
    const page = await (await context(options)).newPage();
    const api = await serve(page, all);
    await page.goto(`${origin}/#/inbox`);
    await page.locator("article[data-id=apr_0]").waitFor();
    const choose = (n) => page.locator(`article[data-id=apr_${n}]`).getByRole("checkbox");
    return { page, api, choose, bar: page.getByRole("region", { name: "Chosen approvals" }), to: counting(page) };
  };
  const small = await open({ ...phone, colorScheme: "dark" });
  await small.choose(0).click();
  await small.choose(1).click();
  await small.bar.waitFor();
  saw.found.push(...(await layout(small.page)), ...(await serious(small.page)));
  await small.page.locator("article[data-id=apr_0] .answers").scrollIntoViewIfNeeded();
  // No button of a card is above its own lines.
  saw.covered = await small.page.evaluate(() =>
    [...document.querySelectorAll("article.approval")].some((card) => {
      const above = card.querySelector(".answers").getBoundingClientRect().top;
      return [...card.children].some((e) => !e.matches(".answers") && e.getBoundingClientRect().bottom > above + 1);
    }),
  );

  const { page, api, choose, bar, to } = await open({ viewport: { width: 1280, height: 860 } });
  const dialog = page.getByRole("dialog");
  await to.click(choose(0));
  to.clicks++;
  await choose(5).click({ modifiers: ["Shift"] });
  saw.count = await bar.innerText();
  saw.foreign = await choose(3).count();
  await to.click(to.button(/^Answer \d+$/, bar));
  saw.title = await dialog.getByRole("heading").first().innerText();
  const region = dialog.getByRole("region", { name: "All arguments" });
  saw.found.push(...(await layout(page)), ...(await serious(page)));
  saw.shown = await region.innerText();
  const approve = to.button(/^Approve \d+$/, dialog);
  saw.before = await approve.isDisabled();
  await region.evaluate((e) => e.scrollTo(0, e.scrollHeight));
  await dialog.locator("button.approve:enabled").waitFor();
  await to.click(approve);
  await dialog.waitFor({ state: "detached" });
  saw.clicks = to.clicks;
  saw.left = await bar.innerText();

  // The rest by keys: x on one card, and X on another.
  to.clicks = 0;
  await page.locator("article[data-id=apr_2]").focus();
  await to.press("x");
  await bar.waitFor({ state: "detached" });
  await page.locator("article[data-id=apr_6]").focus();
  await to.press("x");
  await to.press("j");
  await to.press("X");
  await bar.getByText("2 chosen").waitFor();
  await to.click(to.button(/^Answer \d+$/, bar));
  await to.click(to.button("Deny 2", dialog));
  await dialog.waitFor({ state: "detached" });
  saw.keys = to.clicks;
  saw.answers = api.answers.map((a) => `${a.verb} ${a.id}`);
  return saw;
}

// Only what was shown in full is approved together: not a call whose whole has no arguments, nor one whose arguments can
// be shown since the dialog opened. Arguments are shown however deep they are.
async function shown(context, origin) {
  const deep = '{"f":'.repeat(30) + '"the deepest"' + "}".repeat(30);
  const all = [
    approval(0, { tool: "deep", arguments_json: deep }),
    approval(1, { tool: "empty", arguments_excerpt: true }),
    approval(2, { tool: "away", arguments_json: "", may_not_approve_why: "the key is away" }),
  ];
  const page = await (await context({ viewport: { width: 1280, height: 860 } })).newPage();
  const api = await serve(page, all);
  await page.route(
    (url) => url.pathname.endsWith("/v1/approvals/apr_1"),
    (route) => route.fulfill({ json: { ...all[1], arguments_excerpt: false, arguments_json: "" } }),
  );
  await page.goto(`${origin}/#/inbox`);
  const choose = (n) => page.locator(`article[data-id=apr_${n}]`).getByRole("checkbox");
  await choose(0).click();
  await choose(2).click({ modifiers: ["Shift"] });
  await page.getByRole("button", { name: "Answer 3" }).click();
  const dialog = page.getByRole("dialog"),
    region = dialog.getByRole("region", { name: "All arguments" });
  await dialog.getByText("These are all arguments.").waitFor();
  await region.evaluate((e) => e.scrollTo(0, e.scrollHeight));
  await dialog.locator("button.approve:enabled").waitFor();
  const saw = { text: await region.innerText(), before: await dialog.locator("button.approve").innerText() };
  delete all[2].may_not_approve_why;
  Object.assign(all[2], { arguments_json: '{"to":"bob"}', update_time: new Date().toISOString() });
  await api.tell("asked", all[2]);
  await dialog.getByText("the key is away").waitFor({ state: "detached" });
  saw.after = await dialog.locator("button.approve").innerText();
  return saw;
}

export default async ({ context, args, phone }) => {
  const [origin] = args.origins;
  return {
    thousands: await thousands(context, origin),
    one: await one(context, origin),
    alike: await alike(context, origin, phone),
    chosen: await chosen(context, origin, phone),
    shown: await shown(context, origin),
  };
};
