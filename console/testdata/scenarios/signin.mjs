// A page that nobody is signed in to leads to the sign-in page, and from there back to where the person wanted to be.
export default async ({ context, args }) => {
  const page = await (await context()).newPage();
  const saw = [];
  for (const path of ["/#/inbox/apr_A", "/inbox#/acme/apr_A"]) {
    await page.goto("about:blank");
    await page.goto(args.origins[0] + path);
    await page.waitForURL(/\/signin\?/);
    const { pathname, search } = new URL(page.url());
    saw.push(pathname + search);
  }
  return saw;
};
