// A page that is not in sight still learns what waits: its title counts, and the browser notifies if the person wants
// it. A question that somebody else answers does not move below the finger. A lost answer is not called uncounted. A
// dead link is shown within 12 s.
import { approval, serve } from "../approvals.mjs";

/** hide makes a page believe that it is hidden, or in sight. */
const hide = (page, state) =>
  page.evaluate((to) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => to });
    document.dispatchEvent(new Event("visibilitychange"));
  }, state);

async function hidden(context, origin) {
  const c = await context({ viewport: { width: 1280, height: 860 } });
  await c.addInitScript(() => {
    window.notices = [];
    window.asked = 0;
    window.Notification = class {
      static permission = "default";
      static async requestPermission() {
        window.asked++;
        window.Notification.permission = "granted";
        return "granted";
      }
      constructor(title, options) {
        window.notices.push([title, options.body]);
      }
    };
  });
  const page = await c.newPage();
  await page.clock.install();
  const all = [];
  const api = await serve(page, all);
  await page.goto(`${origin}/#/inbox`);
  await page.getByText("Nothing is waiting for you").waitFor();
  const saw = { asked: await page.evaluate(() => window.asked) };
  await page.getByRole("button", { name: "Notify me" }).click();
  await page.getByRole("button", { name: "Notifications are on" }).waitFor();
  saw.askedByClick = await page.evaluate(() => window.asked);
  await hide(page, "hidden");
  await page.clock.runFor(35_000); // the gateway is silent for at most 40 s
  all.push(approval(1));
  await api.tell("asked", all[0]);
  await page.waitForFunction(() => document.title.startsWith("(1) "));
  saw.title = await page.title();
  saw.notices = await page.evaluate(() => window.notices);
  await c.close();
  return saw;
}

async function sheet(context, origin, phone) {
  const c = await context(phone);
  const page = await c.newPage();
  const all = [approval(1), approval(2, { tool: "other" })];
  const api = await serve(page, all);
  await page.goto(`${origin}/#/inbox`);
  const dialog = page.getByRole("dialog");
  await page.locator("article[data-id=apr_1]").getByRole("button", { name: "Approve" }).click();
  await dialog.locator("button.approve:enabled").waitFor();
  const boxOf = async () => {
    const { y, height } = await dialog.boundingBox();
    return [Math.round(y), Math.round(height)];
  };
  const saw = { before: await boxOf() };
  const time = new Date().toISOString();
  await api.tell("denied", { ...all[0], state: "denied", update_time: time, answer_time: time, answered_by: "Zoe" });
  await dialog.getByText("Your answer was not counted.").waitFor();
  saw.after = await boxOf();
  saw.text = await dialog.getByRole("alert").innerText();
  await dialog.getByRole("button", { name: "Close", exact: true }).last().click();

  // The gateway takes an answer, and its response is lost.
  await page.route(
    (url) => url.pathname.endsWith("/apr_2/approve"),
    (route) => {
      Object.assign(all[1], { state: "approved", update_time: new Date().toISOString(), answered_by: "me" });
      return route.abort();
    },
  );
  await page.route(
    (url) => url.pathname.endsWith("/v1/approvals/apr_2"),
    (route) => route.fulfill({ json: all[1] }),
  );
  await page.locator("article[data-id=apr_2]").getByRole("button", { name: "Approve" }).click();
  await dialog.getByRole("button", { name: "Approve once" }).click();
  await dialog.getByText("this may be your answer").waitFor();
  saw.lost = await dialog.getByRole("alert").first().innerText();
  await c.close();
  return saw;
}

/** dead: the stream of the gateway stays open, and nothing comes any more. */
async function dead(context, origin) {
  const c = await context({ viewport: { width: 1280, height: 860 } });
  const page = await c.newPage();
  await page.clock.install();
  await page.addInitScript(() => {
    window.states = []; // from the first "Live" on
    new MutationObserver(() => {
      const text = document.querySelector("header [role=status]")?.textContent.trim();
      if (text && text !== window.states.at(-1)?.[1] && (text === "Live" || window.states.length))
        window.states.push([Date.now(), text]);
    }).observe(document, { subtree: true, childList: true, characterData: true });
  });
  await page.goto(`${origin}/#/inbox`);
  const until = (count) => page.waitForFunction((n) => window.states.length >= n, count);
  await until(1);
  await stop(page);
  await page.clock.runFor(12_000);
  await until(2);
  await page.clock.runFor(2_000);
  await until(3);
  const states = await page.evaluate(() => window.states);
  await c.close();
  return { states: states.slice(0, 3).map(([, text]) => text), silence: states[1][0] - states[0][0] };
}

/** stop stops the clock of a page, which goes on by runFor alone. */
async function stop(page) {
  for (;;) {
    const now = await page.evaluate(() => Date.now());
    try {
      return await page.clock.pauseAt(now + 100);
    } catch (err) {
      if (!String(err).includes("past")) throw err; // it took longer, but now the clock is stopped
    }
  }
}

export default async ({ context, args, phone }) => {
  const [origin] = args.origins;
  return {
    hidden: await hidden(context, origin),
    sheet: await sheet(context, origin, phone),
    dead: await dead(context, origin),
  };
};
