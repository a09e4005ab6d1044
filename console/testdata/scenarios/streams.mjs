// A tool sends the first half of its result and holds the second one back. The first is on the screen meanwhile: in the
// playground, and in the page of callers.
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

async function documented(page, site, control, name) {
  await page.goto(site + "/docs");
  await page.getByRole("button", { name: new RegExp("^hold.*" + name) }).click();
  await page.getByLabel("Arguments").fill(text);
  await page.getByRole("button", { name: "Stream it" }).click();
  const shown = page.getByRole("group", { name: "Result" }),
    state = page.locator(".badge.info, .badge.good, .badge.bad").filter({ hasText: "stream" });
  await shown.getByText("data").waitFor();
  const saw = { first: await shown.innerText(), state: await state.innerText() };
  await post(control, "/" + name);
  await state.getByText("has ended").waitFor();
  return { ...saw, whole: await shown.innerText(), end: await state.innerText() };
}

export default async ({ context, args }) => {
  const [admin, site] = args.origins;
  const page = await (await context({ viewport: { width: 1280, height: 900 } })).newPage();
  return {
    played: await played(page, admin, args.control),
    documented: await documented(page, site, args.control, "documented"),
  };
};
