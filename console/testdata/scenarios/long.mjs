// Long lists: only what is in sight is in the page, the keys reach every row, the row with the focus stays, and screen
// readers learn how many rows there are.
const count = 5000;

const approval = (i) => ({
  name: `tenants/acme/approvals/apr_${i}`,
  id: `apr_${i}`,
  tenant: "acme",
  user: "ann",
  agent: "bot",
  capability: "mail",
  tool: `tool_${i}`,
  state: "pending",
  level: "tenant",
  create_time: new Date(Date.now() - 600_000 + i).toISOString(),
  update_time: new Date(Date.now() - 600_000 + i).toISOString(),
  expire_time: new Date(Date.now() + 1_800_000).toISOString(),
  arguments_json: JSON.stringify(Object.fromEntries(Array.from({ length: 1 + (i % 9) }, (_, n) => [`field ${n}`, i]))),
  may_answer: true,
});
const change = (i) => ({
  id: `chg_${i}`,
  tenant: "acme",
  time: new Date(Date.now() - i * 1000).toISOString(),
  actor: "ann",
  what: "rule.set",
  targets: [{ name: "capability", value: "word ".repeat(1 + (i % 30)) }],
});

const inPage = (page) => page.evaluate(() => document.querySelectorAll("main *").length);

export default async ({ context, args }) => {
  const page = await (await context({ viewport: { width: 1280, height: 800 } })).newPage();
  const serve = (path, field, of) =>
    page.route(
      (url) => url.pathname === path,
      (route) => route.fulfill({ json: { [field]: Array.from({ length: count }, (_, i) => of(i)) } }),
    );
  await serve("/v1/approvals", "approvals", approval);
  await serve("/v1/audit", "changes", change);
  const saw = {};
  await page.goto(args.origins[0] + "/#/inbox");
  const first = page.locator("article.approval").first();
  await first.waitFor();
  saw.nodes = await inPage(page);
  const items = page.getByRole("listitem");
  saw.sizes = [await items.first().getAttribute("aria-setsize"), await items.first().getAttribute("aria-posinset")];

  const focused = () => page.evaluate(() => document.activeElement?.dataset.id ?? "");
  await page.keyboard.press("j");
  for (let i = 0; i < 60; i++) await page.keyboard.press("j");
  saw.down = await focused();
  await page.keyboard.press("k");
  saw.up = await focused();
  saw.inSight = await page.evaluate(() => {
    const box = document.activeElement.getBoundingClientRect();
    return box.top >= 0 && box.bottom <= window.innerHeight;
  });

  // The page scrolls far away: the focus stays, and j goes on from there.
  await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight));
  await page.locator(`article[data-id=apr_${count - 1}]`).waitFor();
  await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight));
  saw.kept = await focused();
  saw.nodesAtEnd = await inPage(page);
  saw.last = await page.locator("article.approval").last().getAttribute("data-id");
  await page.keyboard.press("j");
  saw.next = await focused();

  await page.evaluate(() => {
    location.hash = "#/audit";
  });
  const table = page.getByRole("table");
  await table.waitFor();
  saw.rows = [
    await table.getAttribute("aria-rowcount"),
    await page.locator("tbody tr").nth(3).getAttribute("aria-rowindex"),
  ];
  await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight / 2));
  await page.waitForFunction(() => Number(document.querySelector("tbody tr[data-row]").ariaRowIndex) > 1000);
  saw.nodesOfTable = await inPage(page);
  // No row is left out between the first and the last of those in the page.
  saw.gapless = await page.evaluate(() => {
    const at = [...document.querySelectorAll("tbody tr[data-row]")].map((r) => Number(r.ariaRowIndex));
    return at.every((n, i) => i === 0 || n === at[i - 1] + 1);
  });
  return saw;
};
