// Uses the web page in one browser: node page.js chrome|firefox EXECUTABLE PAGE [PICTURES]

const assert = require("node:assert");
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const url = require("node:url");
const puppeteer = require("puppeteer-core");

const [browserName, executablePath, folder, pictures] = process.argv.slice(2);
const fixtures = path.join(__dirname, "../fixtures");
const BUNDLE = path.join(fixtures, "bundle-v1");
const [CASE] = JSON.parse(fs.readFileSync(path.join(fixtures, "bundle-v1.json"), "utf8"));
const TYPES = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml", wasm: "application/wasm", webmanifest: "application/manifest+json" };

/** A plain server of files, without headers that a static host would not set. */
function serve() {
  const server = http.createServer((request, response) => {
    const name = decodeURIComponent(new URL(request.url, "http://localhost").pathname).replace(/\/$/, "/index.html");
    fs.readFile(path.join(folder, name), (error, bytes) => {
      if (error) return response.writeHead(404).end();
      response.writeHead(200, { "Content-Type": TYPES[name.split(".").pop()] ?? "application/octet-stream" }).end(bytes);
    });
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

async function main() {
  const server = await serve();
  const address = `http://127.0.0.1:${server.address().port}/`;
  const browser = await puppeteer.launch({
    browser: browserName, executablePath, headless: true,
    args: browserName === "chrome" ? ["--no-sandbox", "--disable-gpu"] : [],
  });
  const page = await browser.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => {
    // The page has no list of models.
    if (message.type() === "error" && !/404|Failed to load resource/.test(message.text())) faults.push(message.text());
  });
  await page.setViewport({ width: 1100, height: 800 });
  // `page.waitForFunction` constructs a function from text, which the policy of the page forbids in Firefox.
  const until = async (condition, value) => {
    const end = Date.now() + 30000;
    while (!await page.evaluate(condition, value)) {
      const seen = await page.evaluate(() => `${document.getElementById("status").textContent} | ${document.getElementById("output").textContent}`);
      assert.ok(Date.now() < end, `not true within 30 s: ${condition}, ${value}; the page shows ${seen}`);
      await new Promise((resume) => setTimeout(resume, 50));
    }
  };
  const shows = (value) => until((value) => document.getElementById("output").textContent === value, value);
  const says = (value) => until((value) => document.getElementById("status").textContent.includes(value), value);
  const picture = async (name) => {
    if (pictures) await page.screenshot({ path: path.join(pictures, `${name}.png`) });
  };

  await page.goto(address);
  await page.waitForSelector("body[data-ready=true]");
  assert.equal(await page.$eval("#text", (box) => box.disabled), true);

  // A file that is no model.
  await (await page.$("#file")).uploadFile(path.join(fixtures, "bundle-v1.json"));
  await says("tar archive");
  await page.click("#remove");

  // The files of a folder: the model is opened, and translates the text that is typed.
  const names = fs.readdirSync(BUNDLE).map((name) => path.join(BUNDLE, name));
  await page.$eval("#file", (box) => { box.multiple = true; });
  await (await page.$("#file")).uploadFile(...names);
  await says("translate, 1 + 2 layers");
  await page.select("#beam", "1");
  await page.type("#text", CASE.source);
  const { load } = await import(url.pathToFileURL(path.resolve(folder, "txmt/index.js")).href);
  const model = await load(BUNDLE);
  const { text: translation } = await model.translate(CASE.source, { beam: 1 });
  model.close();
  await shows(translation);
  await page.select("#beam", "4");
  await page.waitForSelector("#alternatives:not([hidden]) li");
  for (const score of await page.$$eval("#alternatives .score", (found) => found.map(({ textContent }) => textContent))) {
    assert.match(score, /^score -?\d+\.\d\d$/);
  }
  await picture("web-desktop");

  // Hostile text stays text.
  const evil = "<img src=x onerror=alert(1)> <script>document.title='taken'</script>";
  await page.$eval("#text", (box, evil) => { box.value = evil; box.dispatchEvent(new Event("input")); }, evil);
  await until(() => !document.getElementById("output").classList.contains("stale"));
  assert.equal(await page.title(), "Translate offline");
  assert.equal(await page.$$eval("#output img, #output script", (found) => found.length), 0);

  // Without a network: the page and its model are there again.
  await page.select("#beam", "1");
  await page.$eval("#text", (box, source) => { box.value = source; box.dispatchEvent(new Event("input")); }, CASE.source);
  await shows(translation);
  await page.evaluate(async () => { await navigator.serviceWorker.ready; });
  await new Promise((resume) => setTimeout(resume, 500));
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await page.reload();
  await page.waitForSelector("body[data-ready=true]");
  await says("translate, 1 + 2 layers");
  await page.select("#beam", "1");
  await shows(translation);

  // Accessibility, in both schemes and at the width of a phone.
  await page.select("#beam", "4");
  await page.waitForSelector("#alternatives:not([hidden]) li");
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
    if (name === "phone") await picture("web-phone");
  }

  assert.deepEqual(faults, []);
  await browser.close();
  console.log(`${browserName}: ok`);
}

main().catch((error) => { console.error(error); process.exit(1); });
