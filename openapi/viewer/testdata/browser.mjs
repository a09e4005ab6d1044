// Opens a gateway in Chromium as a person would: gives a wrong key and the right one if it has one, tries the weather
// tool, follows a stream, and looks at the pages on a phone. Prints what it saw as JSON.
// node browser.mjs CHROMIUM PROFILE URL [KEY] [DIRECTORY OF SCREENSHOTS]
import processes from "node:child_process";
import { chromium } from "playwright-core";

// Chromium stays in the session of the test: see console/testdata/run.mjs.
const { spawn } = processes;
processes.spawn = (program, args, options) => spawn(program, args, { ...options, detached: false });

const [executablePath, profile, gateway, key, shots] = process.argv.slice(2);
const saw = { strange: [], complaints: [], wide: [], said: [], before: 0, after: 0, padlocks: 0, first: "", dark: "", address: "", result: "" };

const browser = await chromium.launchPersistentContext(profile, {
  executablePath,
  headless: true,
  timeout: 300_000,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
browser.setDefaultTimeout(60_000);
try {
  const page = await browser.newPage();
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(gateway + "/") && !url.startsWith("data:")) saw.strange.push(url);
  });
  page.on("console", (message) => {
    if (message.text().includes("status of 401")) return; // of the wrong key, which the page tells of
    if (message.type() === "error" || message.type() === "warning") saw.complaints.push(message.text());
  });
  page.on("pageerror", (error) => saw.complaints.push(String(error)));

  const tools = page.locator(".opblock", { hasText: "/v1/capabilities/weather/tools/" });
  const wide = async (where) => {
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    const window = await page.evaluate(() => document.documentElement.clientWidth);
    if (width > window) saw.wide.push(`${where}: ${width} of ${window}`);
  };
  const shot = async (name) => { if (shots) await page.screenshot({ path: `${shots}/${name}.png`, fullPage: false }); };

  // The root leads to the tools.
  await page.goto(gateway + "/");
  saw.address = page.url();
  await page.locator(".opblock", { hasText: "/openapi.yaml" }).waitFor();
  saw.before = await tools.count();
  if (key) {
    for (const text of ["a key", "cg_wrong", key]) {
      await page.locator("#secret").fill(text);
      await page.locator("#key button").first().click();
      if (text === key) break;
      await page.locator("#said.wrong").waitFor();
      saw.said.push(await page.locator("#said").innerText());
      await page.locator("#said").evaluate((p) => { p.textContent = ""; p.classList.remove("wrong"); });
    }
  }
  await tools.first().waitFor();
  saw.after = await tools.count();
  saw.padlocks = await page.locator(".authorization__btn").count();
  saw.first = await page.locator(".opblock-tag").first().innerText();
  await shot(key ? "docs-key" : "docs");

  const tool = page.locator(".opblock", { hasText: "/v1/capabilities/weather/tools/get_current_weather" });
  await tool.locator(".opblock-summary-control").click();
  await tool.locator("textarea.body-param__text").fill('{"location": "Berlin"}');
  await tool.locator("button.execute").click();
  const result = tool.locator(".live-responses-table .response-col_description .highlight-code").first();
  await result.waitFor();
  saw.result = await result.innerText();
  await tool.locator(".opblock-summary-control").click();

  // A stream is shown while it comes: this one ends only when the page says so.
  const feed = page.locator(".opblock", { hasText: "/v1/approvals/events" });
  await feed.locator(".opblock-summary-control").click();
  await feed.locator("button.execute").click();
  await feed.locator(".live pre", { hasText: "retry:" }).waitFor();
  await feed.locator(".live").scrollIntoViewIfNeeded();
  await shot(key ? "stream-key" : "stream");
  await feed.locator(".live button").click();
  await feed.locator(".live strong", { hasText: "was stopped" }).waitFor();

  // A phone, in the dark.
  await page.emulateMedia({ colorScheme: "dark" });
  await page.locator("html.dark-mode").waitFor(); // a listener of the page sets it
  await page.setViewportSize({ width: 360, height: 740 });
  await page.evaluate(() => scrollTo(0, 0));
  saw.dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await wide("/docs");
  await shot("docs-phone-dark");
  await tool.locator(".opblock-summary-control").click();
  await tool.locator("button.execute").waitFor();
  await wide("/docs, a tool");
  await tool.scrollIntoViewIfNeeded();
  await shot("tool-phone-dark");
  await page.locator(".top a", { hasText: "Errors" }).click();
  await page.locator("#TOOL_BLOCKED").waitFor();
  await wide("/docs/errors");
  await shot("errors-phone-dark");
  await page.emulateMedia({ colorScheme: "light" });
  await page.goto(gateway + "/docs/errors#TOOL_BLOCKED");
  await shot("errors-phone");
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
