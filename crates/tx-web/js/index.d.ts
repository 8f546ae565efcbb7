/** Error of the engine or of loading, with a hint if there is one. */
export class TxmtError extends Error {
  hint?: string;
}

/** File of the module for this browser or version of Node.js, beside the script. */
export const moduleFile: "txmt.wasm" | "txmt-relaxed.wasm";

/** Bytes of a file. */
export type Bytes = ArrayBuffer | Uint8Array | Blob;

/**
 * A bundle: the address of a bundle in one file, or of a folder, which ends with `/`; its bytes; file names and
 * bytes; or files that a user has chosen. In Node.js, an address can be a path.
 */
export type Source = string | URL | Bytes | Record<string, Bytes> | Iterable<File>;

export interface LoadOptions {
  /** Precision of the weights [default: that of the bundle]. */
  precision?: "f32" | "int8";
  /** Address, bytes or module of the file `moduleFile` [default: that beside the script]. */
  wasm?: string | URL | ArrayBuffer | Uint8Array | WebAssembly.Module;
  /** Called with the bytes that were received, and their total where it is known. */
  onProgress?: (received: number, total?: number) => void;
}

/** Search options that differ from those of the bundle. `docs/decoding.md` describes all of them. */
export interface SearchOptions {
  /** Hypotheses kept per sentence; 1 is greedy search. */
  beam?: number;
  /** Hypotheses returned per sentence. */
  nBest?: number;
  lengthPenalty?: number;
  coveragePenalty?: number;
  repetitionPenalty?: number;
  noRepeatNgram?: number;
  maxRepeats?: number;
  maxLen?: number;
  minLen?: number;
  replaceUnknown?: boolean;
  sampling?: { samples?: number; temperature?: number; top_k?: number; top_p?: number; seed?: number };
  [option: string]: unknown;
}

/** Codes of the languages of a multilingual model. */
export interface Languages {
  source?: string;
  target?: string;
}

export interface Hypothesis {
  text: string;
  /** Log-probability after length normalization and penalties. */
  score: number;
  log_probability: number;
  tokens: (string | null)[];
  ids: number[];
}

export interface Translation {
  /** The best translation. */
  text: string;
  /** Whether the text has more tokens than the model can read. */
  truncated: boolean;
  /** Words that are not in the vocabulary. */
  unknown: string[];
  translations: Hypothesis[];
}

export interface TargetScore {
  log_probability: number;
  perplexity: number;
  truncated: boolean;
  tokens: (string | null)[];
  log_probabilities: number[];
}

export interface Classification {
  label: string | null;
  truncated: boolean;
  unknown: string[];
  labels: { label: string; probability: number }[];
}

export interface Continuation {
  text: string;
  unknown: string[];
  continuations: (Hypothesis & { continuation: string })[];
}

export interface Filled {
  filled: string;
  unknown: string[];
  masks: { text: string; token: string; id: number; probability: number }[][];
}

/** Attention weights: `layers[layer][head][row][column]`. */
export interface AttentionMaps {
  rows: string[];
  columns: string[];
  layers: number[][][][];
}

export interface Attention {
  source: { words: string[]; tokens: string[]; word_of: (number | null)[] };
  target: { words: string[]; tokens: string[]; word_of: (number | null)[] };
  encoder: AttentionMaps;
  decoder: AttentionMaps;
  cross: AttentionMaps;
}

/** Values of a sub-layer: base64 of 32-bit floats, the least significant byte first. */
export interface SublayerValues {
  kind: "self-attention" | "ssru" | "cross-attention" | "feed-forward";
  /** `[tokens, d_model]` */
  input: string;
  /** The context of attention, the hidden features of a feed-forward network, or the states of a recurrent unit. */
  inner: string;
  /** `[tokens, d_model]` */
  output: string;
  /** `[tokens, d_model]` */
  residual: string;
  /** Of attention: the number of heads and keys, and `[tokens, d_model]` queries, keys and values. */
  heads?: number;
  keys?: number;
  q?: string;
  k?: string;
  v?: string;
  /** `[heads, tokens, keys]`, before and after the softmax. */
  scores?: string;
  weights?: string;
}

/** Values of a stack of layers. A layer that is turned off has no sub-layers. */
export interface StackValues {
  embeddings: string;
  positions: string;
  layers: SublayerValues[][];
  output: string;
}

/** All values inside a translator for one text. */
export interface Inside {
  config: Record<string, unknown>;
  source: { ids: number[]; tokens: string[]; text: string };
  /** Tokens that the decoder reads. */
  input: { ids: number[]; tokens: string[] };
  target: { ids: number[]; tokens: string[]; text: string };
  language_token: boolean;
  encoder: StackValues;
  decoder: StackValues;
  /** Likeliest tokens of each step. */
  steps: { id: number; token: string; logit: number; log_probability: number }[][];
  /** Candidates of each step of the beam search; `parent` counts the kept candidates of the step before. */
  beam: { parent: number; id: number; token: string; log_probability: number; outcome: "kept" | "finished" | "pruned" }[][];
  hypotheses: { text: string; ids: number[]; log_probability: number; score: number }[];
  ablations: string[];
}

export interface Description {
  task: "translate" | "classify" | "generate" | "fill-mask";
  precision: "f32" | "int8";
  config: Record<string, unknown>;
  /** Ids of the source and the target. */
  vocabulary: [number, number];
  languages: { source: string[]; target: string[]; [key: string]: unknown } | null;
  labels: string[] | null;
  options: Record<string, unknown> | null;
}

/** A model in a worker. A method of another task is an error. */
export class Model {
  readonly description: Description;
  readonly task: Description["task"];
  translate(text: string, options?: SearchOptions & Languages): Promise<Translation>;
  translate(texts: string[], options?: SearchOptions & Languages): Promise<Translation[]>;
  score(pairs: [string, string][], languages?: Languages): Promise<TargetScore[]>;
  attention(text: string, options?: { translation?: string } & Languages): Promise<Attention>;
  inside(text: string, options?: { prefix?: number[]; ablations?: string[] } & SearchOptions & Languages): Promise<Inside>;
  classify(text: string, options?: { topK?: number }): Promise<Classification>;
  classify(texts: string[], options?: { topK?: number }): Promise<Classification[]>;
  generate(text: string, options?: SearchOptions & { onPart?: (part: string) => void }): Promise<Continuation>;
  generate(texts: string[], options?: SearchOptions): Promise<Continuation[]>;
  fillMask(text: string, options?: { topK?: number }): Promise<Filled>;
  fillMask(texts: string[], options?: { topK?: number }): Promise<Filled[]>;
  /** Ends the worker and frees its memory. */
  close(): void;
}

/** Loads a model. */
export function load(source: Source, options?: LoadOptions): Promise<Model>;

/** Instance of the engine without a worker: it computes on the calling thread. */
export class Engine {
  static create(module: WebAssembly.Module): Promise<Engine>;
  /** Bytes of the memory of the engine, which does not shrink. */
  readonly memory: number;
  open(files: Uint8Array | Record<string, Uint8Array>, precision?: "f32" | "int8"): Description & { model: number };
  call(request: Record<string, unknown>, onPart?: ((part: string) => boolean | void) | null): unknown;
}

/** Returns the bytes of a bundle, for `Engine.open`. */
export function files(
  source: Source,
  onProgress?: (received: number, total?: number) => void,
): Promise<Uint8Array | Record<string, Uint8Array>>;
