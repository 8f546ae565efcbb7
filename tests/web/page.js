// Uses the web page in one browser: node page.js chrome|firefox EXECUTABLE PAGE [PICTURES]

const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const url = require("node:url");
const { checkAccessibility, launch, picture: screenshot, serve, until: waitUntil } = require("../browser.js");

const [browserName, executablePath, folder, pictures] = process.argv.slice(2);
const fixtures = path.join(__dirname, "../fixtures");
const BUNDLE = path.join(fixtures, "bundle-v1");
const [CASE] = JSON.parse(fs.readFileSync(path.join(fixtures, "bundle-v1.json"), "utf8"));
async function main() {
  const server = await serve(folder);
  const address = `http://127.0.0.1:${server.address().port}/`;
  const { browser, page, faults } = await launch(browserName, executablePath);
  const until = (condition, value) => waitUntil(page, condition, value);
  const shows = (value) => until((value) => document.getElementById("output").textContent === value, value);
  const says = (value) => until((value) => document.getElementById("status").textContent.includes(value), value);
  const picture = (name) => screenshot(page, pictures, name);

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
  await checkAccessibility(page, browserName, () => picture("web-phone"));

  // The page has no list of models.
  const others = faults.filter((fault) => !/404|Failed to load resource/.test(fault));
  assert.deepEqual(others, []);
  await browser.close();
  console.log(`${browserName}: ok`);
}

main().catch((error) => { console.error(error); process.exit(1); });
