// The console from its sources, before a running gateway: `make console-dev`. A change of a file is on the screen at once.
import { readFileSync } from "node:fs";
import { defineConfig } from "vite";

const gateway = process.env.CAPGATE_ADMIN ?? "http://127.0.0.1:8081";

/** page returns the console's page with the sources in place of what is built. */
const page = () =>
  readFileSync("page/index.html", "utf8")
    .replaceAll("{{mode}}", "console")
    .replaceAll("{{title}}", "Console")
    .replaceAll("{{icon.svg}}", "/page/icon.svg")
    .replace(/.*\{\{console\.css\}\}.*\n/, "")
    .replace("{{console.js}}", "/src/main.tsx");

/** isOwn reports whether Vite answers a request itself. */
const isOwn = (url) => url === "/" || /^\/(src|page|node_modules|@[\w-]+)\//.test(url) || url.startsWith("/@vite");

export default defineConfig({
  appType: "custom",
  server: {
    host: "127.0.0.1",
    proxy: {
      "/": {
        target: gateway,
        // The gateway compares Host and Origin with its own address.
        headers: { origin: gateway },
        changeOrigin: true,
        bypass: (request) => (isOwn(request.url) ? request.url : undefined),
      },
    },
  },
  plugins: [
    {
      name: "page",
      configureServer: (server) => () => {
        server.middlewares.use("/", async (request, response, next) => {
          if (request.originalUrl !== "/") return next();
          response.setHeader("Content-Type", "text/html; charset=utf-8");
          response.end(await server.transformIndexHtml("/", page()));
        });
      },
    },
  ],
});
