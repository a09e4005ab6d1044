// Starts Chromium, prints where it listens, and stays. All names under attacker.example are this machine. node launch.mjs CHROMIUM
import { chromium } from "playwright-core";

const server = await chromium.launchServer({
  executablePath: process.argv[2],
  headless: true,
  timeout: 300_000,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP *.attacker.example 127.0.0.1"],
});
console.log(server.wsEndpoint());
