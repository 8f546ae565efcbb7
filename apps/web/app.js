// The page: runs a model on the text that is typed. Text never becomes markup: only `textContent` is set.

import * as models from "./models.js";

const DELAY = 300;
const MASK = "<mask>";

const find = (id) => document.getElementById(id);
const [select, text, output, status] = ["model", "text", "output", "status"].map(find);
const [source, target, beam, run] = ["source", "target", "beam", "run"].map(find);

let entries = [];
let model = null;
let timer = 0;
/** Number of the latest request, whose answer is shown. */
let latest = 0;

function say(message, isError = false) {
  status.textContent = message;
  status.classList.toggle("error", isError);
}

function element(name, content, properties = {}) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(content);
  return made;
}

async function refresh(chosen) {
  entries = await models.list();
  const first = element("option", entries.length > 0 ? "Choose a model" : "Open a model first", { value: "" });
  const options = entries.map(({ name }, index) => element("option", name, { value: String(index) }));
  select.replaceChildren(first, ...options);
  const index = entries.findIndex(({ name }) => name === chosen);
  if (index >= 0) {
    select.value = String(index);
    await open(entries[index]);
  }
}

async function open(entry) {
  model?.close();
  model = null;
  text.disabled = true;
  find("remove").disabled = true;
  try {
    say(`Loading ${entry.name}…`);
    const opened = await models.open(entry, find("progress"));
    model = opened.model;
    localStorage.setItem("chosen", entry.name);
    const { task, precision, config, vocabulary } = model.description;
    const layers = [config.encoder_layers, config.decoder_layers].filter(Boolean).join(" + ");
    say(`${task}, ${layers} layers of ${config.d_model}, ${vocabulary[1]} tokens, ${precision}; opened in ${opened.milliseconds} ms`);
    arrange();
    text.disabled = false;
    changed(0);
  } catch (error) {
    say(error.message, true);
  } finally {
    find("remove").disabled = false;
  }
}

/** Shows what the task of the model needs. */
function arrange() {
  const { task, description } = model;
  find("languages").hidden = !description.languages;
  if (description.languages) models.fillLanguages(description.languages, source, target);
  beam.parentElement.hidden = task !== "translate";
  run.hidden = task !== "generate";
  text.placeholder = task === "fill-mask" ? `Type a text with ${MASK}` : "Type or paste text";
  find("alternatives-title").textContent =
    { classify: "Labels", "fill-mask": "Tokens" }[task] ?? "Alternatives";
}

function changed(delay = DELAY) {
  clearTimeout(timer);
  latest += 1;
  find("counter").textContent = String([...text.value].length);
  localStorage.setItem("text", text.value);
  if (!model) return;
  if (text.value.trim() === "") return show("", []);
  output.classList.add("stale");
  if (model.task !== "generate") timer = setTimeout(answer, delay);
}

function milliseconds(start) {
  return `${Math.round(performance.now() - start)} ms`;
}

async function answer() {
  const number = latest;
  const start = performance.now();
  const isLatest = () => number === latest;
  try {
    const [found, rows] = await ask(isLatest);
    if (!isLatest()) return;
    show(found, rows);
    find("time").textContent = milliseconds(start);
  } catch (error) {
    if (isLatest()) say(error.hint ? `${error.message}: ${error.hint}` : error.message, true);
  }
}

/** Runs the model on the text. Returns the result, and rows of text, note and share. */
async function ask(isLatest) {
  switch (model.task) {
    case "translate": return await translate();
    case "classify": {
      const found = await model.classify(text.value.trim());
      const row = ({ label, probability }) => [label, percent(probability), probability];
      return [found.label ?? "", found.labels.map(row)];
    }
    case "fill-mask": {
      if (!text.value.includes(MASK)) return [`The text has no ${MASK}.`, []];
      const found = await model.fillMask(text.value.trim(), { topK: 5 });
      const row = ({ text, probability }) => [text, percent(probability), probability];
      return [found.filled, found.masks.flat().map(row)];
    }
    case "generate": {
      let all = text.value;
      const onPart = (part) => {
        all += part;
        if (isLatest()) show(all, []);
      };
      await model.generate(text.value, { onPart, sampling: { samples: 1, seed: Date.now() % 1e6, top_k: 20 } });
      return [all, []];
    }
  }
}

/** Translates the sentences of each line, and joins them. */
async function translate() {
  const { languages } = model.description;
  const segmenter = new Intl.Segmenter(languages ? source.value : undefined, { granularity: "sentence" });
  const lines = text.value.split("\n").map((line) =>
    [...segmenter.segment(line)].map(({ segment }) => segment.trim()).filter(Boolean));
  const width = Number(beam.value);
  const options = { beam: width, nBest: Math.min(width, 4) };
  if (languages) {
    if (source.value) options.source = source.value;
    options.target = target.value;
  }
  const found = await model.translate(lines.flat(), options);
  const results = found.values();
  const joined = lines.map((line) => line.map(() => results.next().value.text).join(" ")).join("\n");
  const row = ({ text, score }) => [text, `score ${score.toFixed(2)}`];
  return [joined, found.length === 1 ? found[0].translations.slice(1).map(row) : []];
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

function show(result, rows) {
  output.textContent = result;
  output.classList.remove("stale");
  find("copy").disabled = result === "";
  const items = rows.map(([value, note, share]) => {
    const row = element("li", value);
    if (share !== undefined) row.append(" ", element("meter", note, { value: share, ariaLabel: value }));
    row.append(element("span", note, { className: "score" }));
    return row;
  });
  find("alternatives").querySelector("ol").replaceChildren(...items);
  find("alternatives").hidden = items.length === 0;
}

async function choose(chosen) {
  if (chosen.length === 0) return;
  try {
    const { name } = await models.keep([...chosen]);
    await refresh(name);
  } catch (error) {
    say(error.message, true);
  }
}

select.addEventListener("change", () => {
  if (select.value !== "") open(entries[Number(select.value)]);
});
for (const id of ["file", "folder"]) {
  find(id).addEventListener("change", async (event) => {
    await choose(event.target.files);
    event.target.value = "";
  });
}
find("remove").addEventListener("click", async () => {
  if (select.value === "") return;
  const { name } = entries[Number(select.value)];
  await models.remove(entries[Number(select.value)]);
  model?.close();
  model = null;
  text.disabled = true;
  show("", []);
  say(`${name} is removed from this device.`);
  await refresh();
});
text.addEventListener("input", () => changed());
for (const box of [source, target, beam]) box.addEventListener("change", () => changed(0));
find("clear").addEventListener("click", () => { text.value = ""; text.focus(); changed(0); });
run.addEventListener("click", answer);
find("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(output.textContent);
    say("Copied.");
  } catch {
    getSelection().selectAllChildren(output);
    say("Press Ctrl+C to copy.");
  }
});
for (const name of ["dragover", "drop"]) {
  document.addEventListener(name, (event) => {
    if (![...event.dataTransfer.types].includes("Files")) return;
    event.preventDefault();
    if (name === "drop") choose([...event.dataTransfer.files]);
  });
}

text.value = localStorage.getItem("text") ?? "";
await refresh(localStorage.getItem("chosen"));
document.body.dataset.ready = "true";
await models.keepPage();
