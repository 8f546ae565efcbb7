// Translators, classifiers, generators and fillers of masks, in a worker.

import { moduleFile, TxmtError } from "./engine.js";
import { files } from "./files.js";

export { Engine, moduleFile, TxmtError } from "./engine.js";
export { files } from "./files.js";

const isNode = typeof process === "object" && !!process.versions?.node;

/** A worker with an engine, which answers requests in their order. */
class Host {
  #worker;
  #waiting = new Map();
  #next = 0;
  /** Error of all later messages. */
  #ended = null;

  static async create(wasm) {
    const host = new Host();
    const address = new URL("./worker.js", import.meta.url);
    const receive = (message) => host.#receive(message);
    const fail = (error) => host.#fail(error);
    if (isNode) {
      const { Worker } = await import("node:worker_threads");
      // Not the flags of the process, such as `--input-type`, which a file refuses.
      host.#worker = new Worker(address, { execArgv: [] });
      host.#worker.on("message", receive).on("error", fail).unref();
    } else {
      host.#worker = new Worker(address, { type: "module" });
      host.#worker.onmessage = (event) => receive(event.data);
      host.#worker.onerror = (event) => fail(new TxmtError(event.message ?? "the worker failed"));
    }
    await host.send({ module: await compiled(wasm) });
    return host;
  }

  /** Sends a message, and resolves with its result. */
  send(message, onPart, transfer = []) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      if (this.#ended) return reject(this.#ended);
      this.#waiting.set(id, { resolve, reject, onPart });
      if (isNode) this.#worker.ref();
      this.#worker.postMessage({ ...message, id }, transfer);
    });
  }

  close() {
    this.#fail(new TxmtError("the model is closed"));
    this.#worker.terminate();
  }

  #receive({ id, part, result, error }) {
    const waiting = this.#waiting.get(id);
    if (!waiting) return;
    if (part !== undefined) {
      waiting.onPart?.(part);
      return;
    }
    this.#waiting.delete(id);
    if (isNode && this.#waiting.size === 0) this.#worker.unref();
    if (!error) return waiting.resolve(result);
    const { message, hint, isKnown } = error;
    waiting.reject(isKnown ? new TxmtError(message, hint) : new Error(message));
    // After a fault, the memory of the engine is not reliable.
    if (!isKnown) this.#fail(new TxmtError("the engine failed; load the model again"));
  }

  /** Rejects all messages that wait, and later ones. */
  #fail(error) {
    this.#ended ??= error;
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

/** Compiles the module: the file of the package, or the given address or bytes. */
async function compiled(wasm = new URL(`./${moduleFile}`, import.meta.url)) {
  if (wasm instanceof WebAssembly.Module) return wasm;
  if (wasm instanceof ArrayBuffer || ArrayBuffer.isView(wasm)) return WebAssembly.compile(wasm);
  if (isNode && !/^https?:/.test(wasm)) {
    const { readFile } = await import("node:fs/promises");
    return WebAssembly.compile(await readFile(wasm));
  }
  const response = await fetch(wasm);
  if (!response.ok) throw new TxmtError(`${wasm}: ${response.status} ${response.statusText}`);
  return WebAssembly.compile(await response.arrayBuffer());
}

/**
 * Loads a model.
 *
 * `source` is the address of a bundle in one file, or of a folder; its bytes; an object of file names and
 * bytes; or files that a user has chosen. In Node.js, an address can be a path.
 */
export async function load(source, { precision, wasm, onProgress } = {}) {
  const host = await Host.create(wasm);
  try {
    const found = await files(source, onProgress);
    const description = await host.send({ open: { files: found, precision } }, null, own(source, found));
    return new Model(host, description);
  } catch (error) {
    host.close();
    throw error;
  }
}

/** Buffers that can be given away: those of a download, not those of the caller. */
function own(source, found) {
  if (typeof source !== "string" && !(source instanceof URL)) return [];
  const all = found instanceof Uint8Array ? [found] : Object.values(found);
  return all.map((bytes) => bytes.buffer);
}

/** A model. Its methods are those of its task. */
export class Model {
  #host;

  constructor(host, description) {
    this.#host = host;
    this.description = description;
  }

  /** `translate`, `classify`, `generate` or `fill-mask`. */
  get task() {
    return this.description.task;
  }

  /** Translates a text or a list of texts. */
  translate(texts, options = {}) {
    const { source, target, ...search } = options;
    return this.#each("translate", texts, {
      languages: { source, target },
      options: snakeCase(search),
    });
  }

  /** Scores given translations: pairs of source and target. */
  score(pairs, languages = {}) {
    return this.#call({ call: "score", pairs, languages });
  }

  /** Attention weights of a text and, of a translator, its best or a given translation. */
  attention(text, { translation, ...languages } = {}) {
    return this.#call({ call: "attention", text, target: translation, languages });
  }

  /**
   * All values inside a translator for a text. `prefix` are ids that the translation begins with, and `ablations`
   * parts of the model that are turned off, such as `"encoder.2"` and `"cross.1.3"`.
   */
  inside(text, { prefix, ablations, source, target, ...search } = {}) {
    const languages = { source, target };
    return this.#call({ call: "inside", text, prefix, ablations, languages, options: snakeCase(search) });
  }

  /** Assigns labels to a text or a list of texts. */
  classify(texts, { topK } = {}) {
    return this.#each("classify", texts, { topK });
  }

  /** Continues a text or a list of texts. `onPart` receives the parts of one text. */
  generate(texts, { onPart, ...search } = {}) {
    const stream = !!onPart;
    return this.#each("generate", texts, { stream, options: snakeCase(search) }, onPart);
  }

  /** Fills the masks of a text or a list of texts. */
  fillMask(texts, { topK } = {}) {
    return this.#each("fillMask", texts, { topK });
  }

  /** Frees the memory of the model. */
  close() {
    this.#host.close();
  }

  async #each(call, texts, rest, onPart) {
    const isOne = typeof texts === "string";
    const found = await this.#call({ call, texts: isOne ? [texts] : texts, ...rest }, onPart);
    return isOne ? found[0] : found;
  }

  #call(request, onPart) {
    const { model } = this.description;
    return this.#host.send({ request: { model, ...request }, stream: !!onPart }, onPart);
  }
}

/** Names of options as in `config.toml`: `lengthPenalty` becomes `length_penalty`. */
function snakeCase(options) {
  const name = (key) => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(options).map(([key, value]) => [name(key), value]));
}
