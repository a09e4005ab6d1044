// A toolset is set, a tool that has changed since is accepted after its difference was seen, and the toolset is deleted.
export default async ({ context, args }) => {
  const [admin] = args.origins;
  const page = await (await context({ viewport: { width: 1280, height: 900 } })).newPage();
  const dialog = page.getByRole("dialog");
  const saw = {};
  await page.goto(admin + "/#/toolsets");
  if (args.phase === "set") {
    await page.getByText("There are no toolsets").waitFor();
    await page.getByRole("button", { name: "Set a toolset" }).click();
    await dialog.getByLabel("Name", { exact: true }).fill("Support");
    const entry = {
      capability: "one",
      tool: "forecast",
      name: "weather",
      description: "The weather.",
      hash: args.hash,
    };
    await dialog.getByLabel("Tools").fill(JSON.stringify([{ ...entry, arguments: '{"units":"metric"}' }]));
    await dialog.getByRole("button", { name: "Set the toolset" }).click();
    saw.refused = await dialog.getByRole("alert").first().innerText();
    await dialog.getByLabel("Name", { exact: true }).fill("support");
    await dialog.getByRole("button", { name: "Set the toolset" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("link", { name: "support" }).click();
    await page.getByText("current", { exact: true }).waitFor();
    saw.shown = await page.getByRole("main").innerText();
    return saw;
  }
  await page.getByLabel("Tools", { exact: true }).selectOption("changed");
  await page.locator("tr", { hasText: "1 changed" }).getByRole("link", { name: "support" }).click();
  const accept = page.getByRole("button", { name: "Accept this version" });
  saw.diff = await page.locator(".card", { has: accept }).innerText();
  await accept.click();
  await dialog.getByRole("button", { name: "Accept", exact: true }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByText("current", { exact: true }).waitFor();
  await page.goto(admin + "/#/toolsets");
  await page.getByRole("button", { name: "Delete support" }).click();
  await dialog.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByText("There are no toolsets").waitFor();
  return saw;
};
