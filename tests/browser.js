// What the tests of both web pages share.

const assert = require("node:assert");
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const puppeteer = require("puppeteer-core");

const TYPES = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml", wasm: "application/wasm", webmanifest: "application/manifest+json" };

/**
 * A plain server of the files of a folder, without headers that a static host would not set. `find(name)` returns the
 * path of another file.
 */
exports.serve = function (folder, find = () => null) {
  const server = http.createServer((request, response) => {
    const name = decodeURIComponent(new URL(request.url, "http://localhost").pathname).replace(/\/$/, "/index.html");
    fs.readFile(find(name) ?? path.join(folder, name), (error, bytes) => {
      if (error) return response.writeHead(404).end();
      response.writeHead(200, { "Content-Type": TYPES[name.split(".").pop()] ?? "application/octet-stream" }).end(bytes);
    });
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
};

/** Starts a browser, and opens an empty page as wide as that of a desktop. `faults` receives its errors. */
exports.launch = async function (name, executablePath) {
  const browser = await puppeteer.launch({
    browser: name, executablePath, headless: true,
    args: name === "chrome" ? ["--no-sandbox", "--disable-gpu"] : [],
  });
  const page = await browser.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") faults.push(message.text()); });
  await page.setViewport({ width: 1100, height: 800 });
  return { browser, page, faults };
};

/**
 * Waits for a condition in the page. `page.waitForFunction` constructs a function from text, which the policy of the pages
 * forbids in Firefox.
 */
exports.until = async function (page, condition, value) {
  const end = Date.now() + 30000;
  while (!await page.evaluate(condition, value)) {
    const seen = await page.evaluate(() => ["status", "output"].map((id) => document.getElementById(id)?.textContent).join(" | "));
    assert.ok(Date.now() < end, `not true within 30 s: ${condition}, ${value}; the page shows ${seen}`);
    await new Promise((resume) => setTimeout(resume, 50));
  }
};

/** Writes a screenshot, if there is a folder for pictures. */
exports.picture = async function (page, pictures, name) {
  if (pictures) await page.screenshot({ path: path.join(pictures, `${name}.png`) });
};

/** Runs axe-core in both schemes and at the width of a phone, at which it calls `onPhone`. */
exports.checkAccessibility = async function (page, browserName, onPhone) {
  const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
  for (const [name, width, scheme] of [["desktop", 1100, "light"], ["phone", 390, "dark"]]) {
    await page.setViewport({ width, height: 800 });
    if (browserName === "chrome") await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.evaluate(axe);
    const results = await page.evaluate(() => globalThis.axe.run());
    const serious = results.violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
    const found = serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join("; ")}`);
    assert.equal(found.join("\n"), "", name);
    const overflows = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    assert.equal(overflows, false, `${name}: wider than the window`);
    if (name === "phone") await onPhone();
  }
};
