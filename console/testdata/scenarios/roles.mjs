// A person with other roles for each of three tenants: which buttons are disabled, and why. Then an admin of all tenants
// ends the session of that person.
import { layout, open, serious, settled } from "../check.mjs";
import { signIn } from "../person.mjs";

export default async ({ context, args }) => {
  const [admin, issuer] = args.origins;
  const options = { viewport: { width: 1280, height: 900 } };
  const page = await signIn({ context, issuer, person: { sub: "una" }, options }, admin + "/#/policies");
  const saw = { buttons: {}, found: [] };
  const dialog = page.getByRole("dialog");
  const close = async () => {
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  };
  const state = async (button) =>
    (await button.isDisabled()) ? (await button.getAttribute("title")) || "disabled" : "";
  await settled(page);
  saw.said = await page.locator(".person p.small").innerText();
  saw.nav = await page.getByRole("navigation", { name: "Screens" }).first().innerText();
  for (const tenant of ["acme", "globex", "initech"]) {
    saw.buttons[`rule of ${tenant}`] = await state(page.getByRole("button", { name: `Change caps other-${tenant}` }));
  }
  saw.found.push(...(await serious(page)));
  await page.getByRole("button", { name: "Change caps other-acme" }).click();
  await dialog.getByLabel("Policy").selectOption("block");
  await dialog.getByRole("button", { name: "Set the rule" }).click();
  await dialog.waitFor({ state: "detached" });
  const row = page.getByRole("row", { name: /other-acme/ });
  await row.getByText("block").waitFor();
  saw.changed = await row.innerText();
  saw.rules = (
    await page.getByRole("combobox", { name: "Rules", exact: true }).locator("option").allInnerTexts()
  ).join();
  for (const tenant of ["acme", "globex"]) {
    await open(page, admin, `/#/tenants/${tenant}`);
    saw.buttons[`keys of ${tenant}`] = await state(page.getByRole("button", { name: "Create a key" }));
  }
  await open(page, admin, "/#/inbox");
  const of = (id) => page.locator(`article.approval[data-id="${id}"]`);
  for (const [tenant, id] of Object.entries(args.asked)) {
    const button = of(id).getByRole("button", { name: "Approve" });
    saw.buttons[`approval of ${tenant}`] = await state(button);
    if (tenant === "initech") continue;
    await button.click();
    saw.buttons[`always for ${tenant}`] = await state(dialog.getByRole("radio", { name: /^Always/ }));
    await close();
  }
  const choice = page.getByLabel("Tenant", { exact: true }).first();
  for (const tenant of ["acme", "initech"]) {
    await choice.selectOption(tenant);
    await open(page, admin, "/#/tools/caps/echo");
    const call = page.getByRole("button", { name: "Call", exact: true });
    await call.waitFor();
    saw.buttons[`call in ${tenant}`] = await state(call);
    saw.buttons[`tenant of a call, with ${tenant}`] = await page
      .locator("main")
      .getByLabel("Tenant", { exact: true })
      .inputValue();
  }
  // Several tenants: what concerns one of them offers them all.
  await choice.selectOption("-");
  saw.choose = {};
  for (const path of ["/#/policies/matrix?capability=caps", "/#/policies/candidates", "/#/connect"]) {
    await open(page, admin, path);
    const offered = page.locator("main .empty .tenant-choice").first();
    await offered.waitFor();
    saw.found.push(...(await layout(page)));
    saw.choose[path] = (await offered.getByRole("button").allInnerTexts()).join(" ");
  }
  await open(page, admin, "/#/sessions");
  saw.refused = await page.locator("main .failure").innerText();
  await open(page, admin, "/#/audit");

  const root = await signIn(
    { context, issuer, person: { sub: "root", groups: ["ops"] }, options },
    admin + "/#/sessions",
  );
  const theirs = root.getByRole("row", { name: /una, issuer corp/ });
  await theirs.waitFor();
  saw.session = await theirs.innerText();
  await theirs.getByRole("button", { name: /^End the session of una/ }).click();
  await root.getByRole("dialog").getByRole("button", { name: "End", exact: true }).click();
  await theirs.waitFor({ state: "detached" });
  await page.waitForURL(/\/signin\?/);
  saw.ended = await page.getByRole("status").innerText();
  return saw;
};
