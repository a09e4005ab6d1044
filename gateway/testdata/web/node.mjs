// node node.mjs URL DESCRIPTORS prints what calls.mjs saw.
import { readFile } from "node:fs/promises";
import { run } from "./calls.mjs";

const [base, descriptors] = process.argv.slice(2);
const { saw } = await run(base, await readFile(descriptors));
console.log(JSON.stringify(saw));
