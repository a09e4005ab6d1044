// A tool sends the first half of its result and holds the second one back. The first is on the screen meanwhile: in the
// playground, and in the page of the API as lines of JSON and as events.
import { post } from "../gateway.mjs";

const text = '{"word": "the first half, the second half"}';

async function played(page, admin, control) {
  await page.goto(admin + "/#/tools/played/hold");
  await page.getByLabel("JSON", { exact: true }).fill(text);
  await page.getByRole("button", { name: "Call", exact: true }).click();
  const records = page.locator(".record"),
    state = page.locator(".card", { hasText: "Answer" }).locator(".card-head .badge");
  const first = await records.first().innerText();
  const saw = { first, state: await state.innerText() };
  await post(control, "/played");
  await state.getByText("done").waitFor();
  return { ...saw, whole: (await records.allInnerTexts()).join(""), end: await state.innerText() };
}

async function documented(page, site, control, name, type) {
  await page.goto(site + "/docs");
  const path = "/v1/capabilities/{capability_id}/tools/{tool_name}/stream";
  const one = page.locator(".opblock-post", { has: page.locator(`[data-path="${path}"]`) });
  await one.locator(".opblock-summary-control").click();
  await one.locator('tr[data-param-name="capability_id"] input').fill(name);
  await one.locator('tr[data-param-name="tool_name"] input').fill("hold");
  await one.locator("textarea.body-param__text").fill(text);
  await one.locator(".responses-wrapper select.content-type").first().selectOption(type);
  await one.locator("button.execute").click();
  const shown = one.locator(".live pre"),
    title = one.locator(".live strong");
  await shown.getByText("data").waitFor();
  const saw = { first: await shown.innerText(), state: await title.innerText() };
  await post(control, "/" + name);
  await title.getByText("has ended").waitFor();
  return { ...saw, whole: await shown.innerText(), end: await title.innerText() };
}

export default async ({ context, args }) => {
  const [admin, site] = args.origins;
  const page = await (await context({ viewport: { width: 1280, height: 900 } })).newPage();
  return {
    played: await played(page, admin, args.control),
    lines: await documented(page, site, args.control, "lines", "application/x-ndjson"),
    events: await documented(page, site, args.control, "events", "text/event-stream"),
  };
};
