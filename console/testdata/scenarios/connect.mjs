// Opens a gateway as a person who wants to connect: gives a wrong key and the right one if it has one, reads the
// programs and the entries of MCP clients, calls a tool, and one that a person approves, and looks at the last calls and
// at the page in the dark and on a phone.
import { serious } from "../check.mjs";
import { post } from "../gateway.mjs";

const all = ["minor", "moderate", "serious", "critical"];

export default async ({ context, args, phone }) => {
  const [gateway] = args.origins;
  const saw = {
    Address: "",
    Tools: [],
    Programs: {},
    Entries: {},
    Commands: {},
    Result: "",
    Off: false,
    Approved: false,
    Reasons: [],
    Said: [],
    Wrong: [],
  };
  const look = async (page, where) => {
    saw.Wrong.push(...(await serious(page, all)).map((line) => `${where}: ${line}`));
    const [wide, window] = await page.evaluate(() => [
      document.documentElement.scrollWidth,
      document.documentElement.clientWidth,
    ]);
    if (wide > window) saw.Wrong.push(`${where}: the page is ${wide} wide, the window ${window}`);
    if (args.shots) await page.screenshot({ path: `${args.shots}/connect-${where}.png`, fullPage: true });
  };
  const enter = async (page, key) => {
    await page.getByLabel("API key or token").fill(key);
    await page.getByRole("button", { name: "Use this key" }).click();
  };
  const tenant = args.key ? "acme" : "default";
  const rule = await fetch(`${args.admin}/v1/policies`, {
    method: "PUT",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ tenant, capability: "weather", tool: "export_report", policy: "ask" }),
  });
  if (!rule.ok) throw new Error(await rule.text());
  const page = await (await context({ colorScheme: "light" })).newPage();
  await page.goto(gateway + "/");
  saw.Address = page.url();
  if (args.key) {
    await page.getByLabel("API key or token").waitFor();
    await look(page, "key");
    for (const wrong of ["a key", "cg_wrong"]) {
      await enter(page, wrong);
      const said = page.locator("form .wrong").filter({ hasText: wrong === "a key" ? "not a key" : "not accepted" });
      await said.waitFor();
      saw.Said.push(await said.innerText());
    }
    await enter(page, args.key);
  }
  const tools = page.locator(".usable button");
  await tools.filter({ hasText: "allow" }).first().waitFor();
  saw.Tools = await tools.locator("b").allInnerTexts();
  await tools.filter({ hasText: "get_current_weather" }).click();
  await page.getByLabel("Arguments").waitFor();
  for (const language of ["curl", "curl, streamed", "Python", "TypeScript", "Go"]) {
    await page.getByRole("button", { name: language, exact: true }).click();
    saw.Programs[language] = await page.locator("pre[data-language]").textContent();
  }
  for (const client of ["Claude Code", "Cursor", "Gemini CLI", "VS Code"]) {
    await page.getByRole("button", { name: client, exact: true }).click();
    const entry = page.locator("pre[data-client]");
    const name = await entry.getAttribute("data-client");
    saw.Entries[name] = await entry.textContent();
    saw.Commands[name] = await page.locator("p .mono", { hasText: "capgate link" }).innerText();
  }
  await page.getByRole("button", { name: "Call it now" }).click();
  const result = page.getByRole("group", { name: "Result" });
  await result.waitFor();
  saw.Result = await result.innerText();
  // Arguments that are not JSON are not sent.
  const sent = page.getByLabel("Arguments"),
    right = await sent.inputValue();
  await sent.fill("{");
  saw.Off = await page.getByRole("button", { name: "Call it now" }).isDisabled();
  await sent.fill(right);
  // A call that a person has to approve is made again with its approval.
  await tools.filter({ hasText: "export_report" }).click();
  await page.getByRole("button", { name: "Call it now" }).click();
  const again = page.getByRole("button", { name: "Call it with the approval" });
  await again.waitFor();
  const approval = (await result.innerText()).match(/apr_[A-Z0-9]+/)[0];
  await post(args.admin, `/v1/approvals/${approval}/approve`, { tenant });
  const made = page.waitForRequest((r) => r.method() === "POST" && r.url().includes("export_report"));
  await again.click();
  const { "x-approval-id": shown } = (await made).headers();
  await page.getByRole("button", { name: "Call it now" }).waitFor(); // it was used
  saw.Approved = shown === approval;
  // A request that is rejected before it is a call.
  await page.evaluate(
    (key) =>
      fetch("v1/capabilities/weather/tools/get_forecast", {
        method: "POST",
        body: "{",
        headers: { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) },
      }),
    args.key ?? "",
  );
  const calls = page.getByRole("table", { name: "Your last calls" });
  await calls.getByText("INVALID_BODY").waitFor();
  await calls.getByText("get_current_weather").first().waitFor();
  saw.Reasons = await calls.locator("td:nth-child(3)").allInnerTexts();
  await look(page, "light");
  await page.emulateMedia({ colorScheme: "dark" });
  await look(page, "dark");
  const small = await (await context(phone)).newPage();
  await small.goto(gateway + "/docs");
  if (args.key) {
    await small.getByLabel("API key or token").waitFor();
    await enter(small, args.key);
  }
  await small.locator(".usable button").filter({ hasText: "allow" }).first().waitFor();
  await small.getByRole("table", { name: "Your last calls" }).waitFor();
  await look(small, "phone");
  return saw;
};
