// The build writes the same bytes on every machine: the names have no checksums, and console.go adds these to the
// page. One script and one style sheet are smaller than their parts, compressed.
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  publicDir: false,
  logLevel: "warn",
  build: {
    outDir: "../bin/console/out",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    sourcemap: false,
    reportCompressedSize: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      input: "src/main.tsx",
      output: {
        entryFileNames: "console.js",
        assetFileNames: "console[extname]",
        codeSplitting: false,
      },
    },
  },
});
