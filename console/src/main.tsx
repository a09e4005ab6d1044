import { render } from "preact";
import "./style.css";
import { App } from "./shell/App";

const root = document.getElementById("app")!;
root.textContent = "";
render(<App />, root);
