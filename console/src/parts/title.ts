// The title of the page in the browser: how much waits, and the screen.
let screen = "";
let waiting = "";

function show() {
  document.title = `${waiting && `(${waiting}) `}${screen} · capgate`;
}

/** setTitle names the screen. */
export function setTitle(of: string) {
  screen = of;
  show();
}

/** setWaiting sets the count before the name of the screen; "": none. */
export function setWaiting(count: string) {
  waiting = count;
  if (screen) show();
}
