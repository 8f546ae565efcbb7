// The WebAssembly module, called synchronously.

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A function that takes a dot product of relaxed SIMD. */
const RELAXED = new Uint8Array([
  0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x01, 0x60, 0x03, 0x7b, 0x7b, 0x7b, 0x01, 0x7b, 0x03, 0x02,
  0x01, 0x00, 0x0a, 0x0d, 0x01, 0x0b, 0x00, 0x20, 0x00, 0x20, 0x01, 0x20, 0x02, 0xfd, 0x93, 0x02, 0x0b,
]);

/** File of the module for this browser. Most processors multiply bytes faster with relaxed SIMD. */
export const moduleFile = WebAssembly.validate(RELAXED) ? "txmt-relaxed.wasm" : "txmt.wasm";

/** Error of the engine, with a hint if there is one. */
export class TxmtError extends Error {
  constructor(message, hint) {
    super(message);
    this.name = "TxmtError";
    this.hint = hint;
  }
}

/** Instance of the engine. It computes on the thread that calls it. */
export class Engine {
  #wasm;
  #onPart = null;

  /** Instantiates a compiled `WebAssembly.Module`. */
  static async create(module) {
    const engine = new Engine();
    const text = (pointer, length) =>
      decoder.decode(new Uint8Array(engine.#wasm.memory.buffer, pointer, length));
    const instance = await WebAssembly.instantiate(module, {
      txmt: {
        part: (pointer, length) =>
          engine.#onPart?.(text(pointer, length)) === false ? 0 : 1,
        random: (pointer, length) => {
          crypto.getRandomValues(new Uint8Array(engine.#wasm.memory.buffer, pointer, length));
        },
        panic: (pointer, length) => console.error(text(pointer, length)),
      },
    });
    engine.#wasm = instance.exports;
    return engine;
  }

  /** Bytes of the memory of the engine, which does not shrink. */
  get memory() {
    return this.#wasm.memory.buffer.byteLength;
  }

  /**
   * Opens a model: bytes of a bundle in one file, or an object of file names and bytes. Returns its
   * description.
   */
  open(files, precision) {
    const request = { call: "open", precision };
    if (files instanceof Uint8Array) {
      request.archive = this.#add(files);
    } else {
      const buffers = Object.entries(files).map(([name, bytes]) => [name, this.#add(bytes)]);
      request.files = Object.fromEntries(buffers);
    }
    return this.call(request);
  }

  /** Answers a request. `onPart` receives parts of a text that is generated; `false` ends it. */
  call(request, onPart = null) {
    const { answer, length, pointer, release } = this.#wasm;
    const buffer = this.#add(encoder.encode(JSON.stringify(request)));
    this.#onPart = onPart;
    const response = answer(buffer);
    this.#onPart = null;
    const bytes = new Uint8Array(this.#wasm.memory.buffer, pointer(response), length(response));
    const result = JSON.parse(decoder.decode(bytes));
    release(response);
    if (result?.error !== undefined) {
      throw new TxmtError(result.error, result.hint);
    }
    return result;
  }

  #add(bytes) {
    const buffer = this.#wasm.allocate(bytes.length);
    new Uint8Array(this.#wasm.memory.buffer, this.#wasm.pointer(buffer), bytes.length).set(bytes);
    return buffer;
  }
}
