// The page that shows a model from inside: runs it on the text that is typed.

import { show } from "./inside/inside.js";
import * as models from "./models.js";

const DELAY = 300;

const find = (id) => document.getElementById(id);
const [select, text, beam, status, reset] = ["model", "text", "beam", "status", "reset"].map(find);
const [source, target] = ["source", "target"].map(find);

let entries = [];
let model = null;
let draw = null;
let timer = 0;
/** Changes of the model and the beginning of the target. */
let changes = { ablations: [], prefix: [] };
/** Number of the latest run, whose values are shown. */
let latest = 0;

function say(message, isError = false) {
  status.textContent = message;
  status.classList.toggle("error", isError);
}

async function open(entry) {
  model?.close();
  model = null;
  text.disabled = true;
  try {
    say(`Loading ${entry.name}…`);
    const { model: opened } = await models.open(entry, find("progress"));
    if (opened.task !== "translate") {
      opened.close();
      throw new Error(`${entry.name} does not translate; this page shows translation.`);
    }
    model = opened;
    localStorage.setItem("inside-model", entry.name);
    const { languages } = model.description;
    find("languages").hidden = !languages;
    if (languages) models.fillLanguages(languages, source, target);
    if (entry.text && (text.value === "" || entries.some((it) => it.text === text.value))) text.value = entry.text;
    text.disabled = false;
    changes = { ablations: [], prefix: [] };
    await run();
  } catch (error) {
    say(error.message, true);
  }
}

/** Computes the values with the changes, and draws them. */
async function run() {
  const number = (latest += 1);
  reset.disabled = changes.ablations.length + changes.prefix.length === 0;
  if (!model || text.value.trim() === "") return;
  const width = Number(beam.value);
  const options = { ...changes, beam: width, nBest: width };
  if (!find("languages").hidden) {
    if (source.value) options.source = source.value;
    options.target = target.value;
  }
  const start = performance.now();
  try {
    const data = await model.inside(text.value, options);
    if (number !== latest) return;
    const change = (changed) => {
      changes = { ...changes, ...changed };
      return run();
    };
    if (draw) draw(data);
    else draw = show(find("inside"), data, change);
    const { config } = data;
    const layers = [config.encoder_layers, config.decoder_layers].join(" + ");
    say(`${layers} layers, ${config.n_heads} heads, ${config.d_model} features; computed in ${Math.round(performance.now() - start)} ms`);
  } catch (error) {
    if (number === latest) say(error.hint ? `${error.message}: ${error.hint}` : error.message, true);
  }
}

/** Runs again after a change of the text or the options, from which the given beginning no longer follows. */
function changed(delay) {
  clearTimeout(timer);
  changes = { ...changes, prefix: [] };
  timer = setTimeout(run, delay);
}

select.addEventListener("change", () => {
  if (select.value !== "") open(entries[Number(select.value)]);
});
text.addEventListener("input", () => changed(DELAY));
for (const box of [beam, source, target]) box.addEventListener("change", () => changed(0));
reset.addEventListener("click", () => {
  changes = { ablations: [], prefix: [] };
  run();
});

entries = await models.list();
select.replaceChildren(...entries.map(({ name }, index) => new Option(name, String(index))));
if (entries.length === 0) {
  say("Open a model on the page “Translate” first.");
} else {
  const wanted = localStorage.getItem("inside-model");
  const index = Math.max(entries.findIndex(({ name }) => name === wanted), 0);
  select.value = String(index);
  await open(entries[index]);
}
document.body.dataset.ready = "true";
await models.keepPage();
