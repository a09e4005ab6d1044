// The parser of server-sent events (WHATWG HTML §9.2).

export interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

/** parser returns a function that takes text as it arrives, and reports each event. */
export function parser(tell: (e: ServerEvent) => void, setID: (id: string) => void): (text: string) => void {
  let rest = "",
    event = "",
    data: string[] = [],
    id = "";
  const line = (l: string) => {
    if (l === "") {
      if (data.length > 0) tell({ id, event: event || "message", data: data.join("\n") });
      event = "";
      data = [];
      return;
    }
    const colon = l.indexOf(":");
    if (colon === 0) return; // a comment
    const name = colon < 0 ? l : l.slice(0, colon);
    const value = colon < 0 ? "" : l.slice(colon + 1).replace(/^ /, "");
    if (name === "event") event = value;
    else if (name === "data") data.push(value);
    else if (name === "id") {
      id = value;
      setID(id);
    }
  };
  return (text) => {
    const lines = (rest + text).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? "";
    lines.forEach(line);
  };
}
