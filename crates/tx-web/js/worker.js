// A thread that runs an engine: a web worker, or a thread of Node.js.

import { Engine, TxmtError } from "./engine.js";

const isNode = typeof process === "object" && !!process.versions?.node;
const port = isNode ? (await import("node:worker_threads")).parentPort : self;
let engine = null;

async function answer({ id, module, open, request, stream }) {
  try {
    if (module) {
      engine = await Engine.create(module);
      return port.postMessage({ id });
    }
    const onPart = stream ? (part) => port.postMessage({ id, part }) : null;
    const result = open ? engine.open(open.files, open.precision) : engine.call(request, onPart);
    port.postMessage({ id, result });
  } catch (error) {
    const { message, hint } = error;
    port.postMessage({ id, error: { message, hint, isKnown: error instanceof TxmtError } });
  }
}

if (isNode) {
  port.on("message", answer);
} else {
  port.onmessage = (event) => answer(event.data);
}
