// Files of a bundle.

import { TxmtError } from "./engine.js";

const isNode = typeof process === "object" && !!process.versions?.node;

/** Files of a folder; a model has one tokenizer or two. */
const NAMES = ["config.toml", "provenance.toml", "model.safetensors"];
const TOKENIZERS = ["source.tokenizer.json", "target.tokenizer.json"];
const TOKENIZER = ["tokenizer.json"];
/** Words of the training text, which the search of some bundles for translation uses. */
const LEXICON = ["lexicon.json"];

/**
 * Returns the bytes of a bundle in one file, or an object of file names and bytes. See `load` for the
 * sources. `onProgress` is called with the bytes that were received and, where it is known, their total.
 */
export async function files(source, onProgress = () => {}) {
  if (typeof source === "string" || source instanceof URL) {
    return await ofAddress(String(source), onProgress);
  }
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) {
    return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  }
  if (typeof Blob !== "undefined" && source instanceof Blob) return await ofBlob(source);
  if (source?.[Symbol.iterator]) return await ofFiles([...source]);
  const entries = Object.entries(source).map(async ([name, bytes]) => [name, await files(bytes)]);
  return Object.fromEntries(await Promise.all(entries));
}

/** Files that a user has chosen or dropped: one archive, or the files of a folder. */
async function ofFiles(chosen) {
  if (chosen.length === 1) return await ofBlob(chosen[0]);
  const known = [...NAMES, ...TOKENIZERS, ...TOKENIZER, ...LEXICON];
  const found = chosen.filter((file) => known.includes(file.name));
  return Object.fromEntries(await Promise.all(found.map(async (it) => [it.name, await ofBlob(it)])));
}

async function ofBlob(blob) {
  return new Uint8Array(await blob.arrayBuffer());
}

async function ofAddress(address, onProgress) {
  const isLocal = isNode && !/^(https?|data|blob):/.test(address);
  const received = new Map();
  const get = (address) => {
    const progress = (bytes, total) => {
      received.set(address, [bytes, total]);
      const sum = (index) => [...received.values()].reduce((sum, it) => sum + it[index], 0);
      onProgress(sum(0), sum(1) || undefined);
    };
    return isLocal ? read(address) : download(address, progress);
  };
  if (isLocal ? await isFile(address) : !address.endsWith("/")) return await get(address);
  const folder = address.replace(/\/?$/, "/");
  const config = await get(`${folder}config.toml`);
  const text = new TextDecoder().decode(config);
  const isOfPairs = !/^task = "(?!translate")/m.test(text);
  const hasLexicon = /^lexicon = "(?!off")/m.test(text);
  const names = [
    ...NAMES.slice(1),
    ...(isOfPairs ? TOKENIZERS : TOKENIZER),
    ...(hasLexicon ? LEXICON : []),
  ];
  const entries = names.map(async (name) => [name, await get(folder + name)]);
  return Object.fromEntries([["config.toml", config], ...(await Promise.all(entries))]);
}

async function isFile(path) {
  const { stat } = await import("node:fs/promises");
  return (await stat(path)).isFile();
}

async function read(path) {
  const { readFile } = await import("node:fs/promises");
  // A copy, because small files share a buffer, which cannot be given away.
  return new Uint8Array(await readFile(path));
}

async function download(address, progress) {
  const response = await fetch(address);
  if (!response.ok) throw new TxmtError(`${address}: ${response.status} ${response.statusText}`);
  // Of compressed data, the header has another length.
  const encoding = response.headers.get("content-encoding");
  const total = encoding ? 0 : Number(response.headers.get("content-length") ?? 0);
  const parts = [];
  let length = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    length += value.length;
    progress(length, total);
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
