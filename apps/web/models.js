// Models of the page: those that the site lists, and those that a user has opened, which are kept.

import { files, load, moduleFile } from "./txmt/index.js";

const KEPT = "models";
const NAMES = "model-names";

/** Address under which a model of a user is kept. */
const keptAt = (name) => new URL(`kept/${encodeURIComponent(name)}`, document.baseURI).href;

/** Keeps the page and the module for this browser for use without a network. */
export async function keepPage() {
  if ("serviceWorker" in navigator) await navigator.serviceWorker.register(`sw.js?module=${moduleFile}`);
}

/** Models as `{ name, address }`; a kept model has no address. */
export async function list() {
  const kept = names().map((name) => ({ name, isKept: true }));
  return [...(await listed()), ...kept];
}

/** Models in `models.json` beside the page: a list of `{ "name", "address" }`. It need not exist. */
async function listed() {
  try {
    const response = await fetch("models.json");
    return response.ok ? await response.json() : [];
  } catch {
    return [];
  }
}

/** Opens a model, and shows its download in the element `progress`. Returns also the time after the download. */
export async function open(entry, progress) {
  try {
    const content = await bytes(entry, (received, total) => {
      progress.hidden = false;
      if (total) progress.value = received / total;
    });
    const start = performance.now();
    const model = await load(content);
    return { model, milliseconds: Math.round(performance.now() - start) };
  } finally {
    progress.hidden = true;
  }
}

/** Fills the lists of the languages of a multilingual model, and chooses its defaults. */
export function fillLanguages(languages, source, target) {
  const names = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });
  const name = (code) => {
    try {
      return names.of(code.replace("_", "-"));
    } catch {
      return code;
    }
  };
  const fill = (box, codes, chosen) => {
    box.replaceChildren(...codes.map((code) => new Option(name(code), code)));
    if (chosen) box.value = chosen;
  };
  fill(source, languages.source, languages.default_source);
  fill(target, languages.target, languages.default_target);
}

/** Bytes of a model. A listed model is kept once it was downloaded. */
async function bytes({ name, address, isKept }, onProgress) {
  const cache = await caches.open(KEPT);
  const key = isKept ? keptAt(name) : new URL(address, document.baseURI).href;
  const found = await cache.match(key);
  if (found) return new Uint8Array(await found.arrayBuffer());
  const content = inOne(await files(key, onProgress));
  // A full disk costs a download next time.
  await cache.put(key, new Response(content.slice())).catch(() => {});
  return content;
}

/** Keeps a model that a user has opened: one file, or those of a folder. Returns its entry. */
export async function keep(chosen) {
  const name = chosen.length === 1
    ? chosen[0].name.replace(/\.tar$/, "")
    : chosen[0].webkitRelativePath.split("/")[0] || "model";
  const content = inOne(await files(chosen));
  const cache = await caches.open(KEPT);
  await cache.put(keptAt(name), new Response(content));
  localStorage.setItem(NAMES, JSON.stringify([...new Set([...names(), name])]));
  return { name, isKept: true };
}

/** Removes a kept model, or the download of a listed one. */
export async function remove({ name, address, isKept }) {
  const cache = await caches.open(KEPT);
  await cache.delete(isKept ? keptAt(name) : new URL(address, document.baseURI).href);
  if (isKept) localStorage.setItem(NAMES, JSON.stringify(names().filter((it) => it !== name)));
}

function names() {
  return JSON.parse(localStorage.getItem(NAMES) ?? "[]");
}

/** A model in one file: files become a tar archive, as `translate pack` writes it. */
function inOne(files) {
  if (files instanceof Uint8Array) return files;
  const blocks = [];
  for (const [name, bytes] of Object.entries(files)) {
    const header = new Uint8Array(512);
    const write = (text, at) => header.set(new TextEncoder().encode(text), at);
    write(name, 0);
    write("0000644\0", 100);
    write(`${bytes.length.toString(8).padStart(11, "0")}\0`, 124);
    write("00000000000\0", 136);
    write("        0", 148);
    write("ustar\x0000", 257);
    const sum = header.reduce((sum, byte) => sum + byte, 0);
    write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
    blocks.push(header, bytes, new Uint8Array((512 - (bytes.length % 512)) % 512));
  }
  blocks.push(new Uint8Array(1024));
  const content = new Uint8Array(blocks.reduce((sum, block) => sum + block.length, 0));
  let at = 0;
  for (const block of blocks) {
    content.set(block, at);
    at += block.length;
  }
  return content;
}
