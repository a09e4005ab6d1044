// A call runs in the millisecond after its approval. The page shows that it ran, whichever message comes last and
// however their times are written.
export default async ({ context, args }) => {
  const page = await (await context()).newPage();
  const approval = (state, update_time) => ({
    id: "apr_1",
    tenant: "acme",
    user: "carol",
    capability: "mail",
    tool: "send",
    arguments_json: "{}",
    state,
    create_time: "2026-01-02T03:04:05.5Z",
    expire_time: "2126-01-02T03:04:05Z",
    update_time,
  });
  const event = (state, at) => `event: ${state}\ndata: ${JSON.stringify(approval(state, at))}\n\n`;
  let answer,
    told = false;
  const answered = new Promise((resolve) => {
    answer = resolve;
  });
  const card = page.locator("article.approval");
  await page.route(/\/v1\/approvals\?/, (route) =>
    route.fulfill({ json: { approvals: told ? [] : [approval("pending", "2026-01-02T03:04:05.5Z")] } }),
  );
  await page.route("**/v1/approvals/events**", async (route) => {
    await answered;
    if (told) return route.abort();
    told = true;
    return route.fulfill({
      contentType: "text/event-stream",
      body: args.events.map(([state, at]) => event(state, at)).join(""),
    });
  });
  await page.route("**/v1/approvals/apr_1/approve", async (route) => {
    answer();
    await page.locator("article.approval[data-state=used]").waitFor();
    await route.fulfill({ json: approval("approved", args.answered) });
  });
  await page.goto(args.origins[0] + "/#/inbox");
  await card.getByRole("button", { name: "Approve" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Approve once" }).click();
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  return card.getAttribute("data-state");
};
