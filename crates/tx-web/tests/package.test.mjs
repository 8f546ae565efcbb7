// Tests of the package in Node.js: `TXMT_PACKAGE=FOLDER node --test crates/tx-web/tests/package.test.mjs`. TXMT_MODULE is the file
// of the module [default: the one for this version of Node.js].

import assert from "node:assert/strict";
import { readFile, readdir } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

const { TXMT_PACKAGE, TXMT_MODULE } = process.env;
const txmt = await import(pathToFileURL(join(TXMT_PACKAGE, "index.js")).href);
const { TxmtError } = txmt;
const wasm = TXMT_MODULE && join(TXMT_PACKAGE, TXMT_MODULE);
const load = (source, options) => txmt.load(source, { wasm, ...options });

const fixtures = fileURLToPath(new URL("../../../tests/fixtures/", import.meta.url));
const expected = JSON.parse(await readFile(join(fixtures, "bundle-v1.json"), "utf8"));

async function filesOf(folder) {
  const names = await readdir(folder);
  const entries = names.map(async (name) => [name, await readFile(join(folder, name))]);
  return Object.fromEntries(await Promise.all(entries));
}

/** A server of the fixtures. */
async function served(test) {
  const server = createServer(async (request, response) => {
    try {
      const bytes = await readFile(join(fixtures, request.url));
      response.writeHead(200, { "content-length": bytes.length }).end(bytes);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  test.after(() => server.close());
  return `http://127.0.0.1:${server.address().port}`;
}

test("hypotheses are those of the fixture, from every source", async (test) => {
  const address = await served(test);
  const folder = join(fixtures, "bundle-v1");
  const progress = [];
  const onProgress = (bytes, total) => progress.push([bytes, total]);
  for (const source of [folder, `${address}/bundle-v1/`, await filesOf(folder)]) {
    const model = await load(source, { onProgress });
    assert.equal(model.task, "translate");
    const found = await model.translate(expected.map((it) => it.source), { beam: 3, nBest: 2, maxRepeats: 0 });
    for (const [index, { hypotheses }] of expected.entries()) {
      const { translations } = found[index];
      assert.deepEqual(translations.map((it) => it.ids), hypotheses.map((it) => it.ids));
      for (const [place, { score }] of hypotheses.entries()) {
        assert.ok(Math.abs(translations[place].score - score) < 1e-5);
      }
    }
    const one = await model.translate(expected[0].source);
    assert.equal(one.text, expected[0].hypotheses[0].text);
    model.close();
  }
  const [bytes, total] = progress.at(-1);
  assert.ok(bytes > 10_000 && bytes === total, `${bytes} of ${total}`);
});

test("scores and attention", async () => {
  const model = await load(join(fixtures, "bundle-v1"));
  const { source, hypotheses } = expected[0];
  const [score] = await model.score([[source, hypotheses[0].text]]);
  assert.ok(score.log_probability < 0 && score.perplexity > 1);
  const { cross } = await model.attention(source);
  const rows = cross.layers.flat(2);
  assert.ok(rows.every((row) => Math.abs(row.reduce((a, b) => a + b) - 1) < 1e-5));
  model.close();
});

const numbers = (text) => new Float32Array(Uint8Array.from(Buffer.from(text, "base64")).buffer);

test("values inside the model are those of its attention and its translation", async () => {
  const model = await load(join(fixtures, "bundle-v1"));
  const { source } = expected[0];
  const inside = await model.inside(source, { beam: 2, nBest: 2 });
  const { text, translations } = await model.translate(source, { beam: 2, nBest: 2 });
  assert.equal(inside.hypotheses[0].text, text);
  assert.deepEqual(inside.hypotheses.map(({ score }) => score), translations.map(({ score }) => score));
  const { cross } = await model.attention(source);
  const greedy = await model.inside(source, { beam: 1, nBest: 1 });
  const attention = greedy.decoder.layers.map((layer) => layer.find(({ kind }) => kind === "cross-attention"));
  const weights = attention.flatMap(({ weights }) => [...numbers(weights)]);
  const maps = cross.layers.flat(3);
  assert.ok(weights.length === maps.length && weights.every((weight, index) => Math.abs(weight - maps[index]) < 1e-6));
  const changed = await model.inside(source, { ablations: ["cross.1.1", "encoder.1"], prefix: [inside.target.ids[1]] });
  assert.deepEqual(changed.ablations, ["cross.1.1", "encoder.1"]);
  assert.equal(changed.target.ids[0], inside.target.ids[1]);
  assert.deepEqual(changed.encoder.layers[0], []);
  await assert.rejects(model.inside(source, { ablations: ["cross.9.1"] }), /has no cross\.9\.1/);
  model.close();
});

// A weight or an activation is rounded by at most 1/254 of the largest in its column or row.
test("in int8, a score is close to that in single precision", async () => {
  const pair = [expected[0].source, expected[0].hypotheses[0].text];
  const scores = [];
  for (const precision of ["f32", "int8"]) {
    const model = await load(join(fixtures, "bundle-v1"), { precision });
    assert.equal(model.description.precision, precision);
    scores.push(...(await model.score([pair])));
    model.close();
  }
  const [exact, rounded] = scores.map((it) => it.log_probability);
  assert.notEqual(exact, rounded);
  assert.ok(Math.abs(exact - rounded) < 0.05 * Math.abs(exact), `${exact} ${rounded}`);
});

test("errors name what is wrong", async (test) => {
  const address = await served(test);
  const fails = (promise, message) =>
    assert.rejects(promise, (error) => error instanceof TxmtError && message.test(error.message));
  await fails(load(`${address}/nowhere/`), /nowhere\/config\.toml: 404/);
  await fails(load(new Uint8Array(2000).fill(7)), /tar archive/);
  await fails(load({ "config.toml": new Uint8Array() }), /has no `model\.safetensors`/);
  const model = await load(join(fixtures, "bundle-v1"));
  await fails(model.translate("a", { beem: 2 }), /unknown field `beem`/);
  await fails(model.classify("a"), /is `translate`, not `classify`/);
  await fails(model.translate("a", { target: "de" }), /languages/);
  assert.equal((await model.translate("")).text, "");
  model.close();
  await fails(model.translate("a"), /closed/);
});
