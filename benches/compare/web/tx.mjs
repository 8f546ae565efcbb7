// Speed of the package for browsers in Node.js: node tx.mjs PACKAGE MODEL TEXT line|batch
//
// PACKAGE is target/web/txmt, MODEL a bundle. TXMT_MODULE names another module than that for this version of Node.js. The limit of a target is that of bergamot.mjs, twice the source.

import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, model, file, mode] = process.argv.slice(2);
const { Engine, files, moduleFile } = await import(pathToFileURL(resolve(folder, "index.js")));

const bytes = await files(model);
const engine = await Engine.create(await WebAssembly.compile(await readFile(join(folder, process.env.TXMT_MODULE ?? moduleFile))));
const options = { beam: 1, max_len_ratio: 2, max_len_extra: 0, max_repeats: 0 };
const translate = (texts) => engine.call({ call: "translate", model: 0, texts, options });
const start = performance.now();
engine.open(bytes);
const opened = performance.now();
translate(["Hallo"]);
const first = performance.now();

const texts = (await readFile(file, "utf8")).trim().split("\n");
const before = process.cpuUsage();
const found = mode === "batch" ? translate(texts) : texts.flatMap((text) => translate([text]));
const { user, system } = process.cpuUsage(before);
const tokens = found.reduce((sum, { translations }) => sum + translations[0].ids.length, 0);
const seconds = (user + system) / 1e6;
console.log(JSON.stringify({
  program: "tx", model, mode, cpu_seconds: seconds, tokens, tokens_per_cpu_second: Math.round(tokens / seconds),
  open_ms: Math.round(opened - start), first_ms: Math.round(first - opened), memory_mb: engine.memory / 1e6,
}));
