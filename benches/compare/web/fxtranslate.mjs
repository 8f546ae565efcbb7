// Speed of the npm package fxtranslate in Node.js, line by line: node fxtranslate.mjs MODEL TEXT
//
// MODEL is the folder that model.py writes. Needs the npm package in the working directory. `words` are those of the translations,
// which end earlier than those of the other programs: fxtranslate does not say how many tokens it has generated.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(join(process.cwd(), "x.js"));
const { Translator } = await import(pathToFileURL(require.resolve("fxtranslate")));
const [folder, file] = process.argv.slice(2);
const model = await readFile(join(folder, "model.deen.intgemm.alphas.bin"));
const vocab = await readFile(join(folder, "vocab.deen.spm"));
const translator = new Translator(model, vocab, vocab);
const texts = (await readFile(file, "utf8")).trim().split("\n");
translator.translate("Hallo");
const before = process.cpuUsage();
const found = texts.map((text) => translator.translate(text));
const { user, system } = process.cpuUsage(before);
const words = found.join(" ").split(/\s+/).filter(Boolean).length;
console.log(JSON.stringify({ program: "fxtranslate", mode: "line", cpu_seconds: (user + system) / 1e6, words }));
