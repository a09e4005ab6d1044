// A rule is set and explained, a call from the playground waits for an approval and streams its answer, and the calls
// are followed with a filter.
import { post } from "../gateway.mjs";

export default async ({ context, args }) => {
  const [admin] = args.origins;
  const page = await (await context({ viewport: { width: 1280, height: 900 } })).newPage();
  const dialog = page.getByRole("dialog");
  const saw = {};
  const set = async (policy) => {
    await page.goto(admin + "/#/policies");
    await page.getByRole("button", { name: "Set a rule" }).click();
    await dialog.getByLabel("Capability").fill("caps");
    await dialog.getByLabel("Tool").fill("echo");
    await dialog.getByLabel("Policy").selectOption(policy);
    await dialog.getByRole("button", { name: "Set the rule" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.locator("tr", { hasText: "echo" }).getByText(policy, { exact: true }).waitFor();
  };
  await set("block");
  await page.getByRole("link", { name: "Explain caps echo" }).click();
  saw.winner = await page.locator(".chain .decided").innerText();

  await page.goto(admin + "/#/tools/caps/echo");
  const call = async () => {
    await page.getByLabel("JSON", { exact: true }).fill('{"word": "hello from the playground"}');
    await page.getByRole("button", { name: "Call", exact: true }).click();
  };
  await call();
  saw.blocked = await page.locator(".note.bad").innerText();
  await set("ask");
  await page.goto(admin + "/#/tools/caps/echo");
  await call();
  const link = page.getByRole("link", { name: "Open it in the inbox" });
  const to = await link.getAttribute("href");
  await post(admin, `/v1/approvals/${to.split("/").pop()}/approve`, {});
  await page.locator(".record").first().waitFor();
  await page.getByText("done", { exact: true }).waitFor();
  saw.answer = await page.locator(".record").allInnerTexts();
  saw.curl = await page.getByRole("group", { name: "The call with curl" }).innerText();

  await page.goto(admin + "/#/calls");
  await page.locator("tr", { hasText: "echo" }).first().waitFor();
  await page.getByLabel("Reason").fill("*");
  await page.locator("tbody .badge.good").first().waitFor({ state: "detached" });
  const before = await page.locator("tbody tr").count();
  await fetch(args.public + "/v1/capabilities/nosuch/invoke", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: '{"tool_name": "live", "args": {}}',
  });
  await page.locator("tr", { hasText: "CAPABILITY_UNKNOWN" }).first().waitFor();
  saw.live = (await page.locator("tbody tr").count()) > before;
  return saw;
};
