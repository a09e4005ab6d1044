// The history of approvals: who denied what and why, and how long answers take. Each task counts its clicks.
import { layout, open, serious, settled } from "../check.mjs";
import { counting } from "../count.mjs";

export default async ({ context, args, phone }) => {
  const [origin] = args.origins;
  const saw = { found: [] };
  const sizes = {
    light: { viewport: { width: 1280, height: 860 }, colorScheme: "light" },
    dark: { viewport: { width: 1280, height: 860 }, colorScheme: "dark" },
    phone: { ...phone, colorScheme: "light" },
  };
  for (const [size, options] of Object.entries(sizes)) {
    const page = await (await context(options)).newPage();
    await open(page, origin, "/#/inbox/history");
    await page.getByText("By tool and by approver").click();
    await page.getByRole("table", { name: "Statistics by approver" }).waitFor();
    for (const w of [...(await layout(page)), ...(await serious(page))]) saw.found.push(`${size}: ${w}`);
    if (args.images)
      await page.screenshot({ path: `${args.images}/history-${size}.png`, caret: "initial", fullPage: true });
  }

  // From the Inbox: the share that was denied, and the time of answers, are in sight; one click tells whose.
  const page = await (await context(sizes.light)).newPage();
  const requests = [];
  page.on("request", (r) => {
    const url = new URL(r.url());
    if (url.pathname.endsWith("/v1/approvals/history")) requests.push(Object.fromEntries(url.searchParams));
  });
  await open(page, origin, "/#/inbox");
  const { button, ...to } = counting(page);
  await to.click(page.getByRole("tab", { name: "History" }));
  await page.locator(".numbers").waitFor();
  saw.numbers = (await page.locator(".numbers").innerText()).replace(/\s+/g, " ");
  await to.click(page.getByText("By tool and by approver"));
  saw.people = await page.getByRole("table", { name: "Statistics by approver" }).innerText();
  saw.statistics = to.clicks;

  // Who denied it, and why.
  to.clicks = 0;
  const list = () => page.waitForRequest((r) => new URL(r.url()).pathname.endsWith("/v1/approvals/history"));
  const denied = list();
  await to.choose(page.getByLabel("Outcome"), "denied");
  await denied;
  await page.waitForFunction(() => location.hash.includes("outcome=denied"));
  await settled(page);
  saw.rows = await page.getByRole("table", { name: "History of approvals" }).innerText();
  saw.denied = to.clicks;
  saw.asked = requests.at(-1).outcome;
  const week = list();
  await page.getByLabel("When").selectOption("7d");
  await week;
  await page.waitForFunction(() => location.hash.includes("when=7d"));
  await settled(page);
  saw.days = (Date.now() - Date.parse(requests.at(-1).start_time)) / 86_400_000;
  saw.hash = new URL(page.url()).hash;
  await page.reload();
  await page.locator(".numbers").waitFor();
  saw.kept = await page.getByLabel("Outcome").inputValue();
  const download = page.waitForEvent("download");
  await button("Export").click();
  await button("CSV", page.getByRole("dialog")).click();
  saw.file = (await download).suggestedFilename();

  // A search that has not ended does not say that there is nothing.
  const empty = (path, list) =>
    page.route(
      (url) => url.pathname === path && url.searchParams.get("query") === "nobody",
      (route) => route.fulfill({ json: { [list]: [], next_page_token: "on" } }),
    );
  await empty("/v1/approvals/history", "approvals");
  await empty("/v1/calls", "calls");
  saw.empty = [];
  for (const path of ["/#/inbox/history?query=nobody", "/#/calls?query=nobody&when=24h"]) {
    await page.goto(origin + path);
    await page.reload();
    await page.getByText("None found so far.").waitFor();
    saw.empty.push(await page.getByRole("button", { name: "Show more" }).count());
  }
  return saw;
};
