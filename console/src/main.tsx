import { render } from "preact";
import "./style.css";
import { mode } from "./api/client";
import { Docs } from "./docs/Docs";
import { App } from "./shell/App";

const root = document.getElementById("app")!;
root.textContent = "";
render(mode === "docs" ? <Docs /> : <App />, root);
