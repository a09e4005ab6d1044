// A tenant and its keys in the console: a key is made, replaced and revoked. Each is shown once.
export default async ({ context, args }) => {
  const [admin] = args.origins;
  const page = await (await context({ viewport: { width: 1280, height: 900 } })).newPage();
  const dialog = page.getByRole("dialog");
  const saw = { leaks: [] };
  const call = async (key) =>
    (
      await fetch(`${args.public}/v1/capabilities/caps/invoke`, {
        method: "POST",
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${key}` },
        body: '{"tool_name": "echo", "args": {}}',
      })
    ).status;
  /** made reads the key that is shown, puts it away, and looks for it where it must not be. */
  const made = async () => {
    const key = await dialog.locator("code.secret").innerText();
    await dialog.getByRole("button", { name: "I have copied it" }).click();
    await dialog.waitFor({ state: "detached" });
    const secret = key.slice(20);
    const look = async (where, text) => {
      if (text.includes(secret)) saw.leaks.push(where);
    };
    await look("the page", await page.content());
    await page.reload();
    await page.getByRole("table", { name: "Keys" }).waitFor();
    await look("the page again", await page.content());
    await look(
      "its storage",
      await page.evaluate(() =>
        JSON.stringify([{ ...localStorage }, { ...sessionStorage }, history.state, location.href]),
      ),
    );
    for (const path of ["/v1/tenants/acme/keys", "/v1/audit"])
      await look(path, await (await fetch(admin + path)).text());
    return key;
  };
  await page.goto(admin + "/#/tenants");
  await page.getByRole("button", { name: "Create a tenant" }).first().click();
  await dialog.getByLabel("Id", { exact: true }).fill("acme");
  await dialog.getByRole("button", { name: "Create", exact: true }).click();
  await dialog.waitFor({ state: "detached" });
  await page.goto(admin + "/#/tenants/acme");
  await page.getByRole("button", { name: "Create a key" }).click();
  await dialog.getByLabel("Name").fill("travel planner");
  await dialog.getByRole("button", { name: "Create", exact: true }).click();
  saw.first = await made();
  saw.made = [await call(saw.first)];
  await page.getByRole("button", { name: /^Rotate / }).click();
  await dialog.getByLabel("The old key ends").selectOption({ label: "now" });
  await dialog.getByRole("button", { name: "Rotate", exact: true }).click();
  saw.second = await made();
  saw.rotated = [await call(saw.first), await call(saw.second)];
  for (;;) {
    const button = page.getByRole("button", { name: /^Revoke / }).first();
    if (!(await button.count())) break;
    const left = await page.getByRole("button", { name: /^Revoke / }).count();
    await button.click();
    await dialog.getByRole("button", { name: "Revoke", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    await page
      .getByRole("button", { name: /^Revoke / })
      .nth(left - 1)
      .waitFor({ state: "detached" });
  }
  saw.revoked = [await call(saw.first), await call(saw.second)];
  saw.states = await page.getByRole("table", { name: "Keys" }).locator("tbody .badge").allInnerTexts();
  await page.goto(admin + "/#/audit");
  const changes = page.getByRole("table", { name: "Changes" });
  await changes.getByText("key.revoked").first().waitFor();
  saw.audit = await changes.innerText();
  return saw;
};
