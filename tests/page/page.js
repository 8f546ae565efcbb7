// Uses the page in one browser: node page.js chrome|firefox EXECUTABLE [PICTURES]

const assert = require("node:assert");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const puppeteer = require("puppeteer-core");

const [browserName, executablePath, pictures] = process.argv.slice(2);
const url = process.env.TX_URL;
const TEXT = process.env.TEXT ?? "the cat sleeps . The dog eats .";

async function main() {
  const browser = await puppeteer.launch({
    browser: browserName, executablePath, headless: true,
    args: browserName === "chrome" ? ["--no-sandbox", "--disable-gpu"] : [],
  });
  const page = await browser.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") faults.push(message.text()); });
  await page.setViewport({ width: 1100, height: 800 });
  await page.goto(url);
  await page.waitForSelector("body[data-ready=true]");
  const text = (selector) => page.$eval(selector, (element) => element.textContent);
  const output = () => text("#output");
  const expected = async (q, source = "en", target = "it") => {
    const body = JSON.stringify({ q, source, target });
    const answer = await fetch(`${url}translate`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    return (await answer.json()).translatedText;
  };
  // `page.waitForFunction` constructs a function from text, which the policy of the page forbids in Firefox.
  const until = async (condition, value) => {
    const end = Date.now() + 15000;
    while (!await page.evaluate(condition, value)) {
      assert.ok(Date.now() < end, `not true within 15 s: ${condition}, ${value}`);
      await new Promise((resume) => setTimeout(resume, 50));
    }
  };
  const shows = async (value) => until(
    (value) => document.getElementById("output").textContent === value, value);
  const picture = async (name) => {
    if (pictures) await page.screenshot({ path: path.join(pictures, `${name}.png`) });
  };

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
    if (name === "phone") {
      // Each label is beside or above its own box, and the boxes are in one row.
      const rows = await page.$$eval(".language", (found) => found.map((element) => element.getBoundingClientRect().top));
      assert.equal(rows[0], rows[1]);
      await picture("page-phone");
    }
  }

  assert.deepEqual(faults, []);
  await browser.close();
  console.log(`${browserName}: ok`);
}

main().catch((error) => { console.error(error); process.exit(1); });
