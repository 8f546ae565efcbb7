// Uses the page in one browser: node page.js chrome|firefox EXECUTABLE [PICTURES]

const assert = require("node:assert");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { checkAccessibility, launch, picture: screenshot, until: waitUntil } = require("../browser.js");

const [browserName, executablePath, pictures] = process.argv.slice(2);
const url = process.env.TX_URL;
const TEXT = process.env.TEXT ?? "the cat sleeps . The dog eats .";

async function main() {
  const { browser, page, faults } = await launch(browserName, executablePath);
  await page.goto(url);
  await page.waitForSelector("body[data-ready=true]");
  const text = (selector) => page.$eval(selector, (element) => element.textContent);
  const output = () => text("#output");
  const expected = async (q, source = "en", target = "it") => {
    const body = JSON.stringify({ q, source, target });
    const answer = await fetch(`${url}translate`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    return (await answer.json()).translatedText;
  };
  const until = (condition, value) => waitUntil(page, condition, value);
  const shows = async (value) => until(
    (value) => document.getElementById("output").textContent === value, value);
  const picture = (name) => screenshot(page, pictures, name);

  // Types: the translation follows, and the address has the state.
  const select = page.select.bind(page);
  await select("#source", "en");
  await page.type("#text", TEXT);
  const translation = await expected(TEXT);
  await shows(translation);
  assert.match(await page.evaluate(() => location.hash), /^#source=en&target=it&q=the\+cat/);
  assert.equal(await page.$eval("#text", (box) => box.lang), "en");
  assert.equal(await page.$eval("#output", (box) => `${box.lang} ${box.dir}`), "it ltr");

  // Hovers: the source words of a target word are marked.
  await page.waitForSelector("#aligned:not([hidden]) .word");
  await page.hover("#output .word");
  await page.waitForSelector("#aligned-source .linked");
  await page.waitForSelector("#alternatives:not([hidden]) li button");
  for (const score of await page.$$eval("#alternatives .score", (found) => found.map(({ textContent }) => textContent))) {
    assert.match(score, /^score -?\d+\.\d\d$/);
  }
  await picture("page-desktop");

  // The page reads the state from its address.
  const state = await page.evaluate(() => location.href);
  await page.goto("about:blank");
  await page.goto(state);
  await shows(translation);

  // Swaps with the keyboard.
  await page.focus("#text");
  await page.keyboard.down("Alt");
  await page.keyboard.press("s");
  await page.keyboard.up("Alt");
  await until(() => document.getElementById("source").value === "it");
  assert.equal(await page.$eval("#text", (box) => box.value), translation);
  await shows(await expected(translation, "it", "en"));

  // Hostile text stays text.
  await page.select("#source", "en");
  const evil = "<img src=x onerror=alert(1)> <script>document.title='taken'</script> javascript:alert(1)";
  await page.$eval("#text", (box, evil) => { box.value = evil; box.dispatchEvent(new Event("input")); }, evil);
  await shows(await expected(evil));
  assert.equal(await page.title(), "Translate");
  assert.equal(await page.$$eval("#output img, #output script, #aligned img", (found) => found.length), 0);

  // Uploads a file.
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "page-"));
  const file = path.join(folder, "a.txt");
  fs.writeFileSync(file, TEXT);
  await (await page.$("#file")).uploadFile(file);
  await page.waitForSelector("#status a");
  const link = await page.$eval("#status a", (element) => element.href);
  assert.equal(await (await fetch(link)).text(), translation);
  fs.rmSync(folder, { recursive: true });

  // Without text there is no translation.
  await page.click("#clear");
  await shows("");
  await page.type("#text", TEXT);
  await shows(translation);
  await page.waitForSelector("#alternatives:not([hidden]) li button");

  // Accessibility, in both schemes and at the width of a phone.
  await checkAccessibility(page, browserName, async () => {
    // Each label is beside or above its own box, and the boxes are in one row.
    const rows = await page.$$eval(".language", (found) => found.map((element) => element.getBoundingClientRect().top));
    assert.equal(rows[0], rows[1]);
    await picture("page-phone");
  });

  assert.deepEqual(faults, []);
  await browser.close();
  console.log(`${browserName}: ok`);
}

main().catch((error) => { console.error(error); process.exit(1); });
