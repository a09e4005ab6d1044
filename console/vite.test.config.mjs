// Bundles the unit tests for Node's test runner: the oldest Node that the build takes reads no TypeScript.
import { defineConfig } from "vite";

export default defineConfig({
  logLevel: "warn",
  build: {
    ssr: "tests.mjs",
    outDir: "../bin/console/tests",
    emptyOutDir: true,
    target: "node20",
    rolldownOptions: { output: { entryFileNames: "tests.mjs" } },
  },
});
