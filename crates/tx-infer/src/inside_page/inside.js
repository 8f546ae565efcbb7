// The view of all values inside a model. `show` draws it, and `run`, if given, computes it again with changes.

import { beamTree } from "./beam.js";
import { digits, make, matrix, printable, strip, thumbnail } from "./plots.js";
import { explanation, residualText, stagesOf } from "./stages.js";
import { TOURS } from "./tours.js";

/** Numbers of a text in base64, decoded once. */
const decoded = new Map();
function numbers(text) {
  if (!decoded.has(text)) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    decoded.set(text, new Float32Array(bytes.buffer));
  }
  return decoded.get(text);
}

/** Columns `from..to` of each row. */
function columns(values, width, from, to) {
  const rows = values.length / width;
  const found = new Float32Array(rows * (to - from));
  for (let row = 0; row < rows; row++) found.set(values.subarray(row * width + from, row * width + to), row * (to - from));
  return found;
}

function dot(x, y) {
  let sum = 0;
  for (let index = 0; index < x.length; index++) sum += x[index] * y[index];
  return sum;
}

/**
 * Draws the view into `root`. `run(changes)` returns the values with `{ ablations, prefix }`; without it, they cannot
 * be changed. Returns a function that draws other values in the same view.
 */
export function show(root, data, run) {
  const view = new View(root, run);
  view.update(data);
  return (data) => view.update(data);
}

class View {
  #root;
  #run;
  #data;
  #stages;
  #state = { stage: "tokens", head: 0, step: 0, cell: null, mask: "before", scaled: true, tour: null, at: 0 };

  constructor(root, run) {
    this.#root = root;
    this.#run = run;
    this.#readAddress();
    document.addEventListener("keydown", (event) => this.#key(event));
    window.addEventListener("hashchange", () => {
      this.#readAddress();
      this.#draw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
  }

  update(data) {
    decoded.clear();
    this.#data = data;
    this.#stages = stagesOf(data);
    // A layer that was turned off or on has other stages.
    const { stage } = this.#state;
    const layer = stage.slice(0, stage.lastIndexOf(".") + 1);
    if (layer !== "" && !this.#stages.some(({ id }) => id === stage)) {
      this.#state.stage = (this.#stages.find(({ id }) => id.startsWith(layer)) ?? this.#stages[0]).id;
    }
    this.#draw();
  }

  /** Changes the state, and draws it. */
  #go(changes) {
    Object.assign(this.#state, changes);
    this.#writeAddress();
    this.#draw();
  }

  /** Computes the values with changes. */
  async #change(changes) {
    const { ablations } = this.#data;
    this.#root.setAttribute("aria-busy", "true");
    try {
      await this.#run({ ablations, ...changes });
    } finally {
      this.#root.removeAttribute("aria-busy");
    }
  }

  #readAddress() {
    const found = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
    const number = (text) => Math.max(Number.parseInt(text, 10) || 1, 1) - 1;
    if (found.stage) this.#state.stage = found.stage;
    this.#state.head = found.head ? number(found.head) + 1 : 0;
    if (found.step) this.#state.step = number(found.step);
    this.#state.cell = found.query ? [number(found.query), number(found.key)] : null;
    this.#state.tour = TOURS.some(({ id }) => id === found.tour) ? found.tour : null;
    this.#state.at = found.at ? number(found.at) : 0;
    if (this.#state.tour) this.#applyTour();
  }

  #writeAddress() {
    const { stage, head, step, cell, tour, at } = this.#state;
    const found = new URLSearchParams({ stage, step: step + 1 });
    if (head) found.set("head", head);
    if (cell) {
      found.set("query", cell[0] + 1);
      found.set("key", cell[1] + 1);
    }
    if (tour) {
      found.set("tour", tour);
      found.set("at", at + 1);
    }
    history.replaceState(null, "", `#${found}`);
  }

  #key(event) {
    if (event.target.closest?.("input, select, textarea, canvas, table") || event.ctrlKey || event.altKey || event.metaKey) return;
    const index = this.#index();
    const stage = (by) => this.#stages[Math.min(Math.max(index + by, 0), this.#stages.length - 1)].id;
    switch (event.key) {
      case "ArrowRight": this.#go({ stage: stage(1), cell: null }); break;
      case "ArrowLeft": this.#go({ stage: stage(-1), cell: null }); break;
      case ".": this.#go({ step: Math.min(this.#state.step + 1, this.#data.input.ids.length - 1), cell: null }); break;
      case ",": this.#go({ step: Math.max(this.#state.step - 1, 0), cell: null }); break;
      case "Escape": this.#go({ head: 0, cell: null }); break;
      default: return;
    }
    event.preventDefault();
  }

  #index() {
    return Math.max(this.#stages.findIndex(({ id }) => id === this.#state.stage), 0);
  }

  #draw() {
    if (!this.#data) return;
    const focused = document.activeElement?.closest?.("[data-focus]")?.dataset.focus;
    this.#state.step = Math.min(this.#state.step, this.#data.input.ids.length - 1);
    const stage = this.#stages[this.#index()];
    const scrolled = this.#root.querySelector("nav")?.scrollLeft ?? 0;
    this.#root.replaceChildren(
      this.#tours(),
      this.#texts(),
      make("div", { class: "inside" }, this.#navigation(stage), this.#panel(stage)),
    );
    const navigation = this.#root.querySelector("nav");
    navigation.scrollLeft = scrolled;
    if (focused) this.#root.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    this.#root.dataset.stage = stage.id;
  }

  /** A button that keeps the focus when the view is drawn again. */
  #button(focus, text, onclick, properties = {}) {
    const button = make("button", { type: "button", onclick, ...properties }, text);
    button.dataset.focus = focus;
    return button;
  }

  #texts() {
    const { source, target } = this.#data;
    const { step } = this.#state;
    const chips = (tokens, chip) => make("span", { class: "chips", dir: "auto" }, ...tokens.map(chip));
    return make("div", { class: "texts" },
      make("div", {}, make("span", { class: "side" }, "Source"),
        chips(source.tokens, (token) => make("span", { class: "chip" }, printable(token)))),
      make("div", {}, make("span", { class: "side" }, "Target"),
        chips(target.tokens, (token, index) =>
          this.#button(`step-${index}`, printable(token), () => this.#go({ step: index, cell: null }), {
            class: "chip", ariaPressed: String(index === step), title: `Step ${index + 1}`,
          }))));
  }

  #navigation(current) {
    const groups = [];
    for (const stage of this.#stages) {
      if (groups.at(-1)?.name !== stage.group) groups.push({ name: stage.group, stages: [] });
      groups.at(-1).stages.push(stage);
    }
    const button = (stage) => make("li", {}, this.#button(`stage-${stage.id}`, stage.title, () => this.#go({ stage: stage.id, cell: null }), {
      ariaCurrent: stage === current ? "step" : undefined,
    }));
    return make("nav", { ariaLabel: "Steps of the computation" }, ...groups.map(({ name, stages }) =>
      make("section", {}, make("h3", {}, name), make("ol", {}, ...stages.map(button)))));
  }

  #panel(stage) {
    const { section, equation, text } = explanation(stage, this.#data);
    const move = (by) => {
      const next = this.#stages[this.#index() + by];
      return this.#button(`move-${by}`, by < 0 ? "← Back" : "Next →", () => this.#go({ stage: next.id, cell: null }), { disabled: !next });
    };
    const title = stage.group.includes(",") || stage.stack ? `${stage.group}: ${stage.title}` : stage.title;
    return make("article", {},
      make("header", {}, make("h2", {}, title), make("div", { class: "moves" }, move(-1), move(1))),
      make("div", { class: "explanation" },
        equation ? make("p", { class: "equation" }, equation) : null,
        ...text.map((paragraph) => make("p", {}, paragraph)),
        make("p", { class: "note" }, /^\d/.test(section) ? `“Attention Is All You Need”, section ${section}` : section)),
      ...this.#content(stage));
  }

  #content(stage) {
    switch (stage.kind) {
      case "tokens": return [this.#tokens()];
      case "embedding": return this.#embedding(stage);
      case "self-attention":
      case "cross-attention": return this.#attention(stage);
      case "feed-forward":
      case "ssru": return this.#network(stage);
      case "off": return [this.#layerSwitch(stage)];
      case "stack": {
        const { output } = this.#data[stage.stack];
        return [strip("Output", numbers(output), this.#data.config.d_model, this.#labels(stage.stack), { marked: this.#marked(stage.stack) })];
      }
      case "next": return this.#next();
      case "beam": return beamTree(this.#data);
    }
  }

  #labels(stack) {
    return stack === "encoder" ? this.#data.source.tokens : this.#data.input.tokens;
  }

  /** Row of the current step. */
  #marked(stack) {
    return stack === "decoder" ? this.#state.step : undefined;
  }

  /** Rows that exist in the current step: all of the encoder, those so far of the decoder. */
  #soFar(stack, values, width) {
    return stack === "decoder" ? values.subarray(0, (this.#state.step + 1) * width) : values;
  }

  #tokens() {
    const { source, input, target } = this.#data;
    const table = (title, { tokens, ids }) => make("figure", { class: "matrix" },
      make("figcaption", {}, title),
      make("div", { class: "scroll", tabIndex: 0, role: "region", ariaLabel: title }, make("table", { class: "plain" }, make("tbody", {},
        make("tr", {}, make("th", { scope: "row" }, "token"), ...tokens.map((token) => make("td", { dir: "auto" }, printable(token)))),
        make("tr", {}, make("th", { scope: "row" }, "id"), ...ids.map((id) => make("td", {}, String(id))))))));
    return make("div", {}, table("Source, read by the encoder", source), table("Read by the decoder", input), table("Generated", target));
  }

  #embedding({ stack }) {
    const width = this.#data.config.d_model;
    const labels = this.#labels(stack);
    const { embeddings, positions } = this.#data[stack];
    const options = { marked: this.#marked(stack) };
    const [tokens, places] = [embeddings, positions].map((text) => this.#soFar(stack, numbers(text), width));
    const rows = tokens.length / width;
    const found = [strip("Embeddings, scaled", tokens, width, labels, options)];
    if (places.length > 0) {
      const sum = tokens.map((value, index) => value + places[index]);
      const row = (index) => places.subarray(index * width, (index + 1) * width);
      const similar = new Float32Array(rows * rows);
      for (let i = 0; i < rows; i++) for (let j = 0; j < rows; j++) similar[i * rows + j] = dot(row(i), row(j)) / Math.sqrt(dot(row(i), row(i)) * dot(row(j), row(j)));
      const names = Array.from({ length: rows }, (_, index) => String(index));
      found.push(
        strip("Positions", places, width, labels, options),
        strip("Sum: input of the first layer", sum, width, labels, options),
        matrix("Cosine similarity of the positions", similar, names, names, { note: "near positions are alike" }));
    } else {
      found.push(make("p", {}, `Positions of this model (${this.#data.config.positions}) are not added to the embeddings.`));
    }
    return found;
  }

  #attention(stage) {
    const { stack, layer, index, kind } = stage;
    const { config } = this.#data;
    const sublayer = this.#data[stack].layers[layer][index];
    const { heads } = sublayer;
    const width = config.d_model;
    const size = width / heads;
    const isCross = kind === "cross-attention";
    const queries = this.#labels(stack);
    const keys = isCross ? this.#data.source.tokens : queries;
    const rows = stack === "decoder" ? this.#state.step + 1 : queries.length;
    const shownKeys = isCross || stack === "encoder" ? keys.length : rows;
    const marked = this.#marked(stack);
    const head = Math.min(this.#state.head, heads);
    const name = isCross ? "cross" : stack;
    const map = (text, head) => {
      const all = numbers(text).subarray((head - 1) * queries.length * sublayer.keys, head * queries.length * sublayer.keys);
      return columns(all.subarray(0, rows * sublayer.keys), sublayer.keys, 0, shownKeys);
    };
    const thumbnails = make("div", { class: "thumbnails", role: "group", ariaLabel: "Heads" },
      ...Array.from({ length: heads }, (_, index) => {
        const off = this.#isOff(`${name}.${layer + 1}.${index + 1}`);
        const button = this.#button(`head-${index + 1}`, "", () => this.#go({ head: head === index + 1 ? 0 : index + 1, cell: null }), { ariaPressed: String(head === index + 1) });
        button.append(make("span", {}, `Head ${index + 1}${off ? " (off)" : ""}`), thumbnail(map(sublayer.weights, index + 1), shownKeys));
        return button;
      }));
    const input = strip(config.norm === "pre" ? "Input, normalized" : "Input", this.#soFar(stack, numbers(sublayer.input), width), width, queries, { marked });
    const found = [input, make("h3", {}, "Weights of all heads"), thumbnails];
    if (head > 0) found.push(...this.#head({ sublayer, head, size, width, queries: queries.slice(0, rows), keys: keys.slice(0, shownKeys), map, marked, stack, isCross, part: `${name}.${layer + 1}.${head}` }));
    else found.push(make("p", { class: "note" }, "Select a head to see its queries, keys, values and scores."));
    found.push(
      strip("Context: the means of all heads, side by side", this.#soFar(stack, numbers(sublayer.inner), width), width, queries, { marked }),
      ...this.#residual(stage, sublayer));
    return found;
  }

  /** One head: queries, keys, scores, weights, context. */
  #head({ sublayer, head, size, width, queries, keys, map, marked, stack, isCross, part }) {
    const { cell, mask, scaled } = this.#state;
    const from = (head - 1) * size;
    const of = (text, rows) => columns(numbers(text).subarray(0, rows * width), width, from, from + size);
    const [q, k, v] = [of(sublayer.q, queries.length), of(sublayer.k, keys.length), of(sublayer.v, keys.length)];
    const context = of(sublayer.inner, queries.length);
    const scores = map(sublayer.scores, head);
    const weights = map(sublayer.weights, head);
    const isMasked = stack === "decoder" && !isCross;
    const row = (values, index) => values.subarray(index * size, (index + 1) * size);
    const select = (query, key) => this.#go({ cell: [query, key] });
    const options = { selected: cell, select, marked };
    const found = [make("h3", {}, `Head ${head}`)];
    if (this.#run) found.push(this.#switch(part, `Turn head ${head} off`));
    found.push(
      strip("Queries", q, size, queries, { from, marked }),
      strip(isCross ? "Keys of the source" : stack === "decoder" ? "Keys in the cache" : "Keys", k, size, keys, { from, marked: isCross ? undefined : marked }),
      strip(isCross ? "Values of the source" : stack === "decoder" ? "Values in the cache" : "Values", v, size, keys, { from, marked: isCross ? undefined : marked }),
      matrix("Scores", scores, queries, keys, { ...options, note: isMasked ? "q · k / √d_k; the mask hides later tokens" : "q · k / √d_k" }),
      matrix("Weights", weights, queries, keys, { ...options, note: "softmax of each row" }));
    if (cell && cell[0] < queries.length && cell[1] < keys.length) {
      found.push(this.#product({ q: row(q, cell[0]), k: row(k, cell[1]), from, cell, queries, keys, scores, weights, size }));
    } else {
      found.push(make("p", { class: "note" }, "Select a cell to see the dot product behind it."));
    }
    const isPlain = ["sinusoidal", "learned", "rotary", "none"].includes(this.#data.config.positions) || isCross;
    if (isPlain) found.push(this.#whatIf({ q, k, row, queries, keys, size, isMasked, mask, scaled }));
    found.push(strip("Context of this head", context, size, queries, { from, marked }));
    return found;
  }

  /** The dot product behind a cell. */
  #product({ q, k, from, cell, queries, keys, scores, weights, size }) {
    const [query, key] = cell;
    const at = query * keys.length + key;
    const product = dot(q, k);
    const scaled = product / Math.sqrt(size);
    const score = scores[at];
    const rest = scores.subarray(query * keys.length, (query + 1) * keys.length);
    const most = Math.max(...rest);
    const sum = rest.reduce((sum, score) => sum + Math.exp(score - most), 0);
    const rows = Array.from(q, (value, index) => make("tr", {},
      make("th", { scope: "row" }, String(from + index)), ...[value, k[index], value * k[index]].map((value) => make("td", {}, digits(value)))));
    const lines = [`Σ q k = ${digits(product)}`, `÷ √${size} = ${digits(scaled)}`];
    if (score === -Infinity) {
      lines.push("the mask sets the score to −∞: the token comes later", "weight 0");
    } else {
      if (Math.abs(score - scaled) > 1e-3 * Math.max(1, Math.abs(scaled))) lines.push(`+ bias of the distance ${digits(score - scaled)} = ${digits(score)}`);
      lines.push(`exp(${digits(score)} − ${digits(most)}) / ${digits(sum)} = ${digits(weights[at])}`);
    }
    const title = `${printable(queries[query])} → ${printable(keys[key])}`;
    return make("figure", { class: "product" }, make("figcaption", { dir: "auto" }, title),
      make("div", { class: "scroll tall", tabIndex: 0, role: "region", ariaLabel: `Products of ${title}` }, make("table", { class: "plain" },
        make("thead", {}, make("tr", {}, ...["feature", "q", "k", "q · k"].map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, ...rows))),
      make("ol", { class: "lines" }, ...lines.map((line) => make("li", {}, line))));
  }

  /** Weights of the head with another mask, or without the division by √d_k. */
  #whatIf({ q, k, row, queries, keys, size, isMasked, mask, scaled }) {
    const found = new Float32Array(queries.length * keys.length);
    queries.forEach((_, i) => {
      const scores = keys.map((_, j) => {
        const hides = isMasked && mask === "before" && j > i;
        return hides ? -Infinity : dot(row(q, i), row(k, j)) / (scaled ? Math.sqrt(size) : 1);
      });
      const most = Math.max(...scores);
      const powers = scores.map((score) => Math.exp(score - most));
      const sum = powers.reduce((sum, power) => sum + power, 0);
      powers.forEach((power, j) => {
        found[i * keys.length + j] = isMasked && mask === "after" && j > i ? 0 : power / sum;
      });
    });
    const choice = (id, name, content) => make("label", {}, name, " ", content);
    const masks = make("select", { onchange: (event) => this.#go({ mask: event.target.value }) },
      ...[["before", "before the softmax"], ["after", "after the softmax"], ["none", "none"]].map(([value, name]) =>
        make("option", { value, selected: value === mask }, name)));
    masks.dataset.focus = "mask";
    const box = make("input", { type: "checkbox", checked: scaled, onchange: (event) => this.#go({ scaled: event.target.checked }) });
    box.dataset.focus = "scaled";
    const isChanged = !scaled || (isMasked && mask !== "before");
    const sums = queries.map((_, i) => found.subarray(i * keys.length, (i + 1) * keys.length).reduce((sum, value) => sum + value, 0));
    return make("details", { class: "what-if", open: isChanged },
      make("summary", {}, "What if?"),
      make("div", { class: "controls" }, isMasked ? choice("mask", "Mask", masks) : null, make("label", {}, box, " divide by √d_k")),
      matrix("Weights", found, queries, keys, { note: isChanged ? "computed from these queries and keys; the rest of the model keeps its values" : "as in the model" }),
      isMasked && mask === "after" ? make("p", {}, `Rows no longer sum to 1, but to ${sums.map((sum) => sum.toFixed(2)).join(", ")}: the softmax has given weight to tokens that must not be seen.`) : null,
      isMasked && mask === "none" ? make("p", {}, "Without a mask, each token sees those that come later. In training, these contain the answer.") : null);
  }

  #network(stage) {
    const { stack, layer, index, kind } = stage;
    const { config } = this.#data;
    const sublayer = this.#data[stack].layers[layer][index];
    const labels = this.#labels(stack);
    const options = { marked: this.#marked(stack) };
    const inner = kind === "ssru" ? config.d_model : config.d_ff;
    const rows = (text, width) => this.#soFar(stack, numbers(text), width);
    return [
      strip(config.norm === "pre" ? "Input, normalized" : "Input", rows(sublayer.input, config.d_model), config.d_model, labels, options),
      strip(kind === "ssru" ? "State, at least 0" : `Hidden features (${config.activation})`, rows(sublayer.inner, inner), inner, labels, options),
      ...this.#residual(stage, sublayer),
    ];
  }

  #residual(stage, sublayer) {
    const { stack } = stage;
    const width = this.#data.config.d_model;
    const labels = this.#labels(stack);
    const options = { marked: this.#marked(stack) };
    return [
      make("h3", {}, "Residual connection"),
      make("p", {}, residualText(this.#data.config)),
      strip("Output", this.#soFar(stack, numbers(sublayer.output), width), width, labels, options),
      strip("Result", this.#soFar(stack, numbers(sublayer.residual), width), width, labels, options),
      this.#run ? this.#layerSwitch(stage) : null,
    ].filter(Boolean);
  }

  #layerSwitch({ stack, layer }) {
    return this.#run ? this.#switch(`${stack}.${layer + 1}`, `Turn layer ${layer + 1} of the ${stack} off`) : make("p", {});
  }

  #isOff(part) {
    return this.#data.ablations.includes(part);
  }

  /** Box that turns a part of the model off. */
  #switch(part, text) {
    const { ablations } = this.#data;
    const onchange = () => this.#change({ ablations: this.#isOff(part) ? ablations.filter((it) => it !== part) : [...ablations, part] });
    const box = make("input", { type: "checkbox", checked: this.#isOff(part), onchange });
    box.dataset.focus = `part-${part}`;
    return make("p", { class: "switch" }, make("label", {}, box, ` ${text}`));
  }

  #next() {
    const { steps, target } = this.#data;
    const { step } = this.#state;
    const chosen = target.ids[step];
    const before = target.ids.slice(this.#data.language_token ? 1 : 0, step);
    const row = ({ id, token, logit, log_probability }) => {
      const probability = Math.exp(log_probability);
      const meter = make("meter", { value: probability, ariaLabel: `Probability of ${printable(token)}` }, digits(probability));
      const use = this.#run && id !== chosen
        ? this.#button(`use-${id}`, "Use this", () => this.#change({ prefix: [...before, id] }))
        : id === chosen ? make("span", { class: "note" }, "chosen") : "";
      const made = make("tr", { class: id === chosen ? "marked" : undefined },
        make("th", { scope: "row", dir: "auto" }, printable(token)), make("td", {}, String(id)), make("td", {}, digits(logit)),
        make("td", {}, digits(probability)), make("td", {}, meter), make("td", {}, use));
      Object.assign(made.dataset, { logit, logProbability: log_probability });
      return made;
    };
    const title = `Step ${step + 1} of ${steps.length}: after ${target.tokens.slice(0, step).map(printable).join(" ") || printable(this.#data.input.tokens[0])}`;
    return [make("figure", { class: "matrix" }, make("figcaption", { dir: "auto" }, title),
      make("div", { class: "scroll", tabIndex: 0, role: "region", ariaLabel: "Likeliest tokens" }, make("table", { class: "plain" },
        make("thead", {}, make("tr", {}, ...["token", "id", "logit", "probability", "", ""].map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, ...steps[step].map(row)))))];
  }

  /** Moves to the view of the tour. */
  #applyTour() {
    const { tour, at } = this.#state;
    const steps = TOURS.find(({ id }) => id === tour).steps;
    this.#state.at = Math.min(at, steps.length - 1);
    Object.assign(this.#state, { head: 0, cell: null, mask: "before", scaled: true }, steps[this.#state.at].view);
  }

  #tours() {
    const { tour, at } = this.#state;
    const start = (id, at) => {
      Object.assign(this.#state, { tour: id, at });
      if (id) this.#applyTour();
      this.#go({});
    };
    const choices = TOURS.map(({ id, title }) => this.#button(`tour-${id}`, title, () => start(tour === id ? null : id, 0), { ariaPressed: String(tour === id) }));
    const found = TOURS.find(({ id }) => id === tour);
    const box = found ? make("div", { class: "tour", role: "status" },
      make("p", {}, found.steps[at].text),
      make("div", { class: "moves" },
        make("span", { class: "note" }, `${at + 1} of ${found.steps.length}`),
        this.#button("tour-back", "Back", () => start(tour, at - 1), { disabled: at === 0 }),
        this.#button("tour-next", "Next", () => start(tour, at + 1), { disabled: at === found.steps.length - 1 }),
        this.#button("tour-end", "End", () => start(null, 0)))) : null;
    return make("section", { class: "tours", ariaLabel: "Questions" }, make("div", { class: "choices" }, make("span", { class: "side" }, "Questions"), ...choices), ...(box ? [box] : []));
  }
}
