// Uses the page of the values inside a model in one browser: node inside.js chrome|firefox EXECUTABLE PAGE [PICTURES]
//
// MODEL is another bundle, for pictures with real translations, and TEXT a sentence for it.

const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const url = require("node:url");
const { checkAccessibility, launch, picture: screenshot, serve, until: waitUntil } = require("../browser.js");

const [browserName, executablePath, folder, pictures] = process.argv.slice(2);
const fixtures = path.join(__dirname, "../fixtures");
const BUNDLE = process.env.MODEL ?? path.join(fixtures, "bundle-v1");
const CASES = JSON.parse(fs.readFileSync(path.join(fixtures, "bundle-v1.json"), "utf8"));
const TEXT = process.env.TEXT ?? CASES.slice(0, 2).map(({ source }) => source).join(" ");

/** A list of models with one entry. */
const LIST = path.join(fs.mkdtempSync(path.join(require("node:os").tmpdir(), "inside-")), "models.json");

const numbers = (text) => {
  const bytes = Buffer.from(text, "base64");
  return Array.from({ length: bytes.length / 4 }, (_, index) => bytes.readFloatLE(4 * index));
};

async function main() {
  const { load } = await import(url.pathToFileURL(path.resolve(folder, "txmt/index.js")).href);
  const model = await load(BUNDLE);
  const data = await model.inside(TEXT, { beam: 4, nBest: 4 });
  const greedy = await model.inside(TEXT, { beam: 1, nBest: 1 });

  fs.writeFileSync(LIST, JSON.stringify([{ name: "model", address: "bundle/", text: TEXT }]));
  const server = await serve(folder, (name) => {
    if (name === "/models.json") return LIST;
    return name.startsWith("/bundle/") ? path.join(BUNDLE, path.basename(name)) : null;
  });
  const address = `http://127.0.0.1:${server.address().port}/inside.html`;
  const { browser, page, faults } = await launch(browserName, executablePath);
  const until = (condition, value) => waitUntil(page, condition, value);
  const picture = (name) => screenshot(page, pictures, name);
  const stage = (id) => until((id) => document.getElementById("inside").dataset.stage === id, id);
  const visit = async (hash) => {
    await page.evaluate((hash) => { location.hash = hash; }, hash);
    await stage(hash.match(/stage=([^&]*)/)[1]);
  };
  /** Selects a button of the view by the name that keeps its focus. */
  const press = (focus) => page.evaluate((focus) => document.querySelector(`[data-focus="${focus}"]`).click(), focus);
  const idle = () => until(() => !document.getElementById("inside").hasAttribute("aria-busy"));
  const target = () => page.$$eval(".texts [data-focus^=step-]", (found) => found.map(({ textContent }) => textContent));
  const printable = (token) => (token !== "" && token.trim() === "" ? "␣".repeat([...token].length) : token.replaceAll("▁", "_").replaceAll("\uffed", "·"));

  await page.goto(address);
  await page.waitForSelector("body[data-ready=true]");
  await stage("tokens");
  assert.deepEqual(await target(), data.target.tokens.map(printable));

  // Every stage, by the button and back by the keyboard.
  const stages = await page.$$eval("nav button", (found) => found.map(({ dataset }) => dataset.focus.replace("stage-", "")));
  assert.ok(stages.includes("encoder.1.self-attention") && stages.at(-1) === "beam", stages.join());
  for (const id of stages.slice(1)) {
    await press("move-1");
    await stage(id);
    const text = await page.$eval("article", ({ innerText }) => innerText);
    assert.ok(!/undefined|NaN|\[object/.test(text), `${id}: ${text}`);
  }
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("ArrowLeft");
  await stage(stages.at(-2));

  // The numbers of every head are those of the package, bit by bit.
  let compared = 0;
  const last = data.input.ids.length;
  for (const stack of ["encoder", "decoder"]) {
    for (const [layer, sublayers] of data[stack].layers.entries()) {
      for (const { kind, heads, keys, scores, weights } of sublayers.filter(({ heads }) => heads)) {
        const queries = stack === "encoder" ? data.source.ids.length : last;
        for (let head = 1; head <= heads; head++) {
          await visit(`stage=${stack}.${layer + 1}.${kind}&head=${head}&step=${last}`);
          const found = await page.$$eval(".matrix", (figures) => figures.slice(0, 2).map((figure) =>
            [...figure.querySelectorAll("tbody button")].map(({ dataset }) => dataset.value)));
          for (const [index, all] of [scores, weights].entries()) {
            const expected = numbers(all).slice((head - 1) * queries * keys, head * queries * keys).map(String);
            assert.deepEqual(found[index], expected, `${stack} ${layer} ${kind} ${head}`);
            compared += expected.length;
          }
        }
      }
    }
  }
  // Those of the strips, by the arrow keys: along the first row, and back along the second.
  const width = data.config.d_model;
  const first = (kind) => data.decoder.layers[0].find((sublayer) => sublayer.kind === kind);
  for (const [id, text] of [
    ["encoder.embedding", data.encoder.embeddings],
    ["encoder.output", data.encoder.output],
    ["decoder.1.feed-forward", first("feed-forward").input],
    ["decoder.1.cross-attention", first("cross-attention").input],
    ["decoder.output", data.decoder.output],
  ]) {
    await visit(`stage=${id}&step=${last}`);
    await page.focus(".strip canvas");
    const keys = [...Array(width - 1).fill("ArrowRight"), "ArrowDown", ...Array(width - 1).fill("ArrowLeft")];
    const path = [...Array(width).keys()];
    const order = [...path, ...path.reverse().map((column) => width + column)].slice(1);
    const expected = numbers(text);
    for (const [index, key] of keys.entries()) {
      await page.keyboard.press(key);
      const found = await page.$eval(".strip .readout", ({ dataset }) => dataset.value);
      assert.equal(found, String(expected[order[index]]), `${id}, ${order[index]}`);
      compared += 1;
    }
  }
  // Those of the next token.
  for (let step = 1; step <= last; step++) {
    await visit(`stage=next&step=${step}`);
    const found = await page.$$eval("tbody tr", (rows) => rows.map(({ dataset }) => [Number(dataset.logit), Number(dataset.logProbability)]));
    assert.deepEqual(found, data.steps[step - 1].map(({ logit, log_probability }) => [logit, log_probability]));
    compared += 2 * found.length;
  }
  assert.ok(compared >= 1000, `${compared} numbers were compared`);

  // A cell, and the product behind it.
  await visit(`stage=encoder.1.self-attention&head=1`);
  await page.click(".matrix tbody tr:nth-child(2) td:nth-child(2) button");
  await page.waitForSelector(".product");
  const lines = await page.$$eval(".product .lines li", (found) => found.map(({ textContent }) => textContent));
  assert.ok(lines[0].startsWith("Σ q k = ") && lines.at(-1).includes("exp("), lines.join());
  assert.match(await page.evaluate(() => location.hash), /query=2&key=1/);
  await picture("inside-attention");

  // The cache grows by a row with each step.
  await visit("stage=decoder.1.self-attention&head=1&step=1");
  const cached = () => page.$$eval(".strip", (found) => found.find(({ textContent }) => textContent.includes("in the cache")).querySelector("canvas").height);
  assert.equal(await cached(), 1);
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press(".");
  assert.equal(await cached(), 2);

  // The mask after the softmax, and no division.
  await visit(`stage=decoder.1.self-attention&head=1&step=${last}`);
  await page.evaluate(() => { document.querySelector(".what-if").open = true; });
  await page.select("[data-focus=mask]", "after");
  const sums = await page.$eval(".what-if", ({ innerText }) => innerText);
  assert.match(sums, /no longer sum to 1/);
  await page.select("[data-focus=mask]", "none");
  assert.match(await page.$eval(".what-if", ({ innerText }) => innerText), /Without a mask/);
  await press("scaled");

  // A head and a layer are turned off.
  await press("part-decoder.1.1");
  await until(() => document.querySelector('[data-focus="head-1"]').textContent.includes("(off)"));
  await press("part-decoder.1");
  await stage("decoder.1.off");
  const off = await model.inside(TEXT, { beam: 4, nBest: 4, ablations: ["decoder.1.1", "decoder.1"] });
  assert.deepEqual(await target(), off.target.tokens.map(printable));
  await page.click("#reset");
  await until(() => !document.querySelector('[data-focus="stage-decoder.1.off"]'));

  // Another token in the first step.
  await visit("stage=next&step=1");
  const other = data.steps[0].find(({ id }) => id !== data.target.ids[0] && id > 3);
  await press(`use-${other.id}`);
  await until((token) => document.querySelector("[data-focus=step-0]").textContent === token, printable(other.token));
  await page.click("#reset");
  await until((token) => document.querySelector("[data-focus=step-0]").textContent === token, printable(data.target.tokens[0]));

  // The tree of the beam.
  await visit("stage=beam&step=1");
  const nodes = await page.$$eval(".node", (found) => found.length);
  assert.equal(nodes, data.beam.flat().length);
  await page.$eval(".node", (node) => node.focus());
  await until(() => document.querySelector(".readout.block").textContent.includes("log-probability"));
  await picture("inside-beam");
  await page.select("#beam", "1");
  await until((count) => document.querySelectorAll(".node").length === count, greedy.beam.flat().length);

  // Every tour, to its end, and one by its address.
  const tours = await page.$$eval(".tours .choices button", (found) => found.map(({ dataset }) => dataset.focus));
  assert.equal(tours.length, 5);
  for (const tour of tours) {
    await press(tour);
    await page.waitForSelector(".tour");
    while (await page.$eval("[data-focus=tour-next]", ({ disabled }) => !disabled)) await press("tour-next");
    await press("tour-end");
  }
  await page.evaluate(() => { location.hash = "tour=beam&at=2"; });
  await stage("beam");
  assert.match(await page.$eval(".tour .note", ({ textContent }) => textContent), /2 of 3/);
  await press("tour-end");

  // Hostile text stays text.
  await page.$eval("#text", (box) => { box.value = "<img src=x onerror=alert(1)>"; box.dispatchEvent(new Event("input")); });
  await until(() => document.querySelector(".texts").innerText.length > 0);
  await page.$eval("#text", (box, text) => { box.value = text; box.dispatchEvent(new Event("input")); }, TEXT);
  await until((tokens) => document.querySelectorAll(".texts > div:first-child .chip").length === tokens, data.source.tokens.length);
  await idle();

  for (const [name, hash] of [["embedding", "stage=encoder.embedding"], ["head", "stage=encoder.1.self-attention&head=1&query=1&key=1"], ["next", "stage=next&step=1"], ["beam", "stage=beam"]]) {
    await visit(hash);
    await checkAccessibility(page, browserName, () => picture(`inside-${name}-phone`));
    await page.setViewport({ width: 1100, height: 800 });
  }

  // Without a network: the page and its model are there again.
  await page.evaluate(async () => { await navigator.serviceWorker.ready; });
  await new Promise((resume) => setTimeout(resume, 500));
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await page.reload();
  await page.waitForSelector("body[data-ready=true]");

  model.close();
  fs.rmSync(path.dirname(LIST), { recursive: true });
  const others = faults.filter((fault) => !/404|Failed to load resource/.test(fault));
  assert.deepEqual(others, []);
  await browser.close();
  console.log(`${browserName}: ok, ${compared} numbers compared`);
}

main().catch((error) => { console.error(error); process.exit(1); });
