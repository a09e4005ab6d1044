// A call asks, its card appears on a phone, a person approves, and the call's result arrives. Two pages show the same.
// Then answers that come too late, and the keyboard.
import { invoke, post } from "../gateway.mjs";

export default async ({ context, args, phone }) => {
  const [admin] = args.origins;
  const saw = {};
  const c = await context(phone);
  const [one, two] = [await c.newPage(), await c.newPage()];
  for (const page of [one, two]) {
    await page.goto(admin + "/#/inbox");
    await page.getByText("Nothing is waiting for you").waitFor();
  }
  const call = invoke(args.public, "caps", {
    to: ["a@example.com", "b@example.com"],
    amount: "1.50",
    body: { text: "hello\nworld", password: "hunter2hunter2" },
  });
  const card = one.locator("article.approval");
  await card.waitFor();
  saw.card = await card.innerText();
  await two.locator("article.approval[data-state=pending]").waitFor();
  await card.getByRole("button", { name: "Approve" }).click();
  await one.getByRole("dialog").getByRole("button", { name: "Approve once" }).click();
  saw.status = (await call).status;
  saw.result = await (await call).text();
  await one.locator("article.approval[data-state=used]").waitFor();
  saw.other = await two.locator("article.approval[data-state=used] .outcome").innerText();

  // The second page learns nothing by itself, and its person answers what somebody has answered.
  await two.route("**/v1/approvals/events**", (route) => route.abort());
  await two.reload();
  const late = invoke(args.public, "caps", { second: true });
  const asked = one.locator("article.approval[data-state=pending]");
  await asked.waitFor();
  const id = await asked.getAttribute("data-id");
  await two.reload();
  await two.locator("article.approval[data-state=pending]").getByRole("button", { name: "Approve" }).click();
  await post(admin, `/v1/approvals/${id}/deny`, { by: "Zoe", comment: "no" });
  saw.denied = (await late).status;
  await two.getByRole("dialog").getByRole("button", { name: "Approve once" }).click();
  saw.conflict = await two.getByRole("dialog").getByRole("alert").first().innerText();

  // The keyboard answers, after a question. The link of one approval opens it.
  const desk = await (await context({ viewport: { width: 1280, height: 800 } })).newPage();
  await desk.goto(admin + "/#/inbox");
  const home = await (await context({ viewport: { width: 1280, height: 800 } })).newPage();
  await home.goto(admin + "/#/");
  const tile = home.locator(".tile", { hasText: "Approvals" });
  await tile.getByText("None waiting").waitFor();
  const third = invoke(args.public, "caps", { third: true });
  await desk.locator("article.approval[data-state=pending]").waitFor();
  // Home says so by the same feed, without another request for its summary.
  await tile.getByText("1 waiting").waitFor();
  saw.home = await home.locator(".attention").innerText();
  await desk.keyboard.press("j");
  await desk.keyboard.press("Enter");
  await desk.getByText("Expires at").waitFor();
  saw.address = new URL(desk.url()).hash;
  await desk.keyboard.press("d");
  saw.deny = await desk.getByRole("dialog").getByRole("region", { name: "All arguments" }).innerText();
  await desk
    .getByRole("dialog")
    .getByLabel(/Reason/)
    .fill("not today");
  await desk.getByRole("dialog").getByRole("button", { name: "Deny once" }).click();
  saw.reason = await (await third).text();
  await desk.getByRole("dialog").waitFor({ state: "hidden" });
  await tile.getByText("None waiting").waitFor();
  await desk.keyboard.press("?");
  await desk.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await desk.keyboard.press("Escape");
  await desk.keyboard.press("g");
  await desk.keyboard.press("f");
  await desk.getByRole("heading", { name: "Fleets" }).waitFor();
  return saw;
};
