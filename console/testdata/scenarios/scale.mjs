// A console before a large installation: from a click until the screen takes input, in seconds, the share of a core that
// the page takes while it is idle, and the number of its elements. What is not shown is counted.
export default async ({ context, args }) => {
  const [admin] = args.origins;
  const c = await context({ viewport: { width: 1280, height: 860 } });
  const page = await c.newPage();
  const cdp = await c.newCDPSession(page);
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
  const work = async () => {
    const { metrics } = await cdp.send("Performance.getMetrics");
    return metrics.find((m) => m.name === "TaskDuration").value;
  };
  const saw = {};

  /** look opens a screen by its link, and measures until what shows it is ready, and then for some of its polls. */
  async function look(title, ready, said) {
    const link = page
      .getByRole("navigation", { name: "Screens" })
      .getByRole("link", { name: new RegExp(`^${title}\\b`) });
    await link.waitFor();
    const [began, before] = [Date.now(), await work()];
    await link.click();
    await ready.first().waitFor();
    // Input is taken once a frame was drawn after that.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const wall = (Date.now() - began) / 1000,
      busy = (await work()) - before;
    const [idleFrom, idleBefore] = [Date.now(), await work()];
    await page.evaluate((ms) => new Promise((done) => setTimeout(done, ms)), args.idle * 1000);
    saw[title] = {
      wall,
      busy,
      idle: ((await work()) - idleBefore) / ((Date.now() - idleFrom) / 1000),
      nodes: await page.evaluate(() => document.querySelectorAll("*").length),
      said: (await said.first().innerText()).replace(/\s+/g, " "),
    };
  }

  await page.goto(`${admin}/#/`);
  await page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  await look("Fleets", page.locator("main").getByRole("link", { name: /^f\d+$/ }), page.locator(".screen-head p"));
  await look("Tools", page.getByRole("link", { name: /^tool_\d+$/ }), page.locator(".screen-head p"));
  await look("Inbox", page.locator("article.approval"), page.locator("p.more"));
  return saw;
};
