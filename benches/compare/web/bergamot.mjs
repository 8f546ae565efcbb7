// Speed of @browsermt/bergamot-translator in Node.js: node bergamot.mjs MODEL TEXT line|batch
//
// MODEL is the folder that model.py writes. Needs the npm package in a folder above this file or the working directory, with a
// file `worker/package.json` that says `{"type": "commonjs"}`, without which it does not start in Node.js.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(join(process.cwd(), "x.js"));
const { BatchTranslator, LatencyOptimisedTranslator, TranslatorBacking } = await import(
  pathToFileURL(require.resolve("@browsermt/bergamot-translator/translator.js"))
);
const [folder, file, mode] = process.argv.slice(2);

async function buffer(path) {
  const bytes = await readFile(path);
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
}

class Local extends TranslatorBacking {
  async loadModelRegistery() {
    return [{ from: "de", to: "en", files: {} }];
  }

  async loadTranslationModel() {
    const model = await buffer(join(folder, "model.deen.intgemm.alphas.bin"));
    const vocabs = [await buffer(join(folder, "vocab.deen.spm"))];
    return { model, shortlist: new ArrayBuffer(0), vocabs, config: {} };
  }
}

const texts = (await readFile(file, "utf8")).trim().split("\n");
const options = { pivotLanguage: null };
const translator = mode === "batch"
  ? new BatchTranslator({ ...options, batchSize: texts.length }, new Local(options))
  : new LatencyOptimisedTranslator(options, new Local(options));
const translate = (text) => translator.translate({ from: "de", to: "en", text, html: false });
await translate("Hallo");
const before = process.cpuUsage();
if (mode === "batch") {
  await Promise.all(texts.map(translate));
} else {
  for (const text of texts) await translate(text);
}
const { user, system } = process.cpuUsage(before);
console.log(JSON.stringify({ program: "bergamot", mode, cpu_seconds: (user + system) / 1e6 }));
await translator.delete();
process.exit(0);
