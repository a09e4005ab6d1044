// Opens the page at /docs of a gateway in Chromium as a person would: shows a key if it has one, and tries the
// weather tool. Prints what it saw as JSON. node browser.mjs CHROMIUM PROFILE URL [KEY]
import { chromium } from "playwright-core";

const [executablePath, profile, gateway, key] = process.argv.slice(2);
const saw = { strange: [], complaints: [], before: 0, after: 0, result: "" };

const browser = await chromium.launchPersistentContext(profile, {
  executablePath,
  headless: true,
  timeout: 300_000,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
browser.setDefaultTimeout(300_000);
try {
  const page = await browser.newPage();
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(gateway + "/") && !url.startsWith("data:")) saw.strange.push(url);
  });
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") saw.complaints.push(message.text());
  });
  page.on("pageerror", (error) => saw.complaints.push(String(error)));

  await page.goto(gateway + "/docs");
  const tools = page.locator(".opblock", { hasText: "/v1/capabilities/weather/tools/" });
  await page.locator(".opblock", { hasText: "/openapi.yaml" }).waitFor();
  saw.before = await tools.count();
  if (key) {
    await page.locator(".auth-wrapper .authorize").first().click();
    const bearer = page.locator(".auth-container", { hasText: "bearer" }).first();
    await bearer.locator("input").fill(key);
    await bearer.locator("button.authorize").click();
    await page.locator(".btn-done").first().click();
  }
  await tools.first().waitFor();
  saw.after = await tools.count();

  const tool = page.locator(".opblock", { hasText: "/v1/capabilities/weather/tools/get_current_weather" });
  await tool.locator(".opblock-summary-control").click();
  await tool.locator("textarea.body-param__text").fill('{"location": "Berlin"}');
  await tool.locator("button.execute").click();
  const result = tool.locator(".live-responses-table .response-col_description .highlight-code").first();
  await result.waitFor();
  saw.result = await result.innerText();
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
