// Counts what a person does for a task.

/**
 * counting returns the acts of a person on a page: click, choose and press count one each. A text counts as one, as if it
 * was pasted. Scrolling and reading count nothing.
 */
export function counting(page) {
  const of = { clicks: 0, texts: 0 };
  of.click = async (target) => {
    of.clicks++;
    await target.click();
  };
  of.choose = async (target, option) => {
    of.clicks++;
    await target.selectOption(option);
  };
  of.press = async (key) => {
    of.clicks++;
    await page.keyboard.press(key);
  };
  of.paste = async (text) => {
    of.texts++;
    await page.keyboard.insertText(text);
  };
  of.button = (name, within = page) => within.getByRole("button", { name });
  return of;
}
