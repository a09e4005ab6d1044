// What scenarios check of a page.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** serious returns what axe-core finds on a page, as lines: what is serious or worse, or of other impacts. */
export async function serious(page, impacts = ["serious", "critical"]) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  const { violations } = await page.evaluate(() =>
    globalThis.axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
      resultTypes: ["violations"],
      preload: false, // no rule of these needs the files of the page
    }),
  );
  return violations
    .filter((v) => impacts.includes(v.impact))
    .flatMap((v) =>
      v.nodes.slice(0, 3).map((n) => `${v.id}: ${n.target.join(" ")}: ${n.failureSummary?.replaceAll("\n", " ")}`),
    );
}

/**
 * layout returns what is wrong with the layout: what is wider than the window, links to other places, and a script of
 * a hostile string that ran.
 */
export async function layout(page) {
  return page.evaluate(() => {
    const wrong = "hacked" in window ? ["a script ran"] : [],
      wide = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > wide) {
      wrong.push(`the page is ${document.documentElement.scrollWidth} wide, the window ${wide}`);
      for (const e of document.querySelectorAll("main *")) {
        if (e.getBoundingClientRect().right > wide + 1 && wrong.length < 6)
          wrong.push(`${e.tagName}.${e.className}: ${e.textContent.slice(0, 40)}`);
      }
    }
    for (const a of document.querySelectorAll("[href], [src], [action], [formaction]")) {
      for (const name of ["href", "src", "action", "formaction"]) {
        const to = a.getAttribute(name);
        // The operators' own traces.link is the only way out.
        if (name === "href" && a.rel === "noopener noreferrer" && /^https?:\/\//.test(to)) continue;
        if (to !== null && !to.startsWith("#/") && !to.startsWith("/") && to !== "#main") wrong.push(`${name}=${to}`);
        if (to?.startsWith("//")) wrong.push(`${name}=${to}`);
      }
    }
    for (const e of document.querySelectorAll("*")) {
      // A gap in a long list has the height of the rows that are out of sight.
      for (const a of e.attributes)
        if (/^on/i.test(a.name) || (a.name === "style" && !/^height: [\d.]+px;$/.test(a.value)))
          wrong.push(`${e.tagName} has ${a.name}`);
    }
    for (const tag of ["iframe", "object", "embed", "img", "base", "script:not([src])", "#app script"]) {
      if (document.querySelector(tag)) wrong.push(`there is ${tag}`);
    }
    return wrong;
  });
}

/** open shows a screen, and waits until it has its data. A page that is there already is not loaded again. */
export async function open(page, origin, path) {
  const to = new URL(path, origin),
    now = new URL(page.url());
  const there = now.origin === to.origin && now.pathname === to.pathname;
  if (!there) await page.goto(to.href);
  await page.evaluate(settle, there && now.hash !== to.hash ? to.hash : null);
}

/** settled waits until a screen has its data. */
export async function settled(page) {
  await page.evaluate(settle, null);
}

/** settle runs in the page. It shows a screen, unless hash is null, and is told of each change until the data is there. */
async function settle(hash) {
  if (hash !== null) {
    await new Promise((shown) => {
      addEventListener("hashchange", () => requestAnimationFrame(() => requestAnimationFrame(shown)), { once: true });
      location.hash = hash;
    });
  }
  await new Promise((done) => {
    const ready = () => document.querySelector("main h1") && !document.querySelector("main .loading");
    const watch = new MutationObserver(() => {
      if (!ready()) return;
      watch.disconnect();
      done();
    });
    watch.observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["class"] });
    if (ready()) {
      watch.disconnect();
      done();
    }
  });
}
