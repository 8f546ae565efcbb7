// The page: reads the input, keeps the state in the address, and shows translations.

import * as api from "./api.js";
import * as output from "./output.js";

const DELAY = 400;
const DETAILS_DELAY = 300;
const RIGHT_TO_LEFT = new Set(["ar", "dv", "fa", "he", "ps", "ur", "yi", "ug", "sd"]);

const find = (id) => document.getElementById(id);
const text = find("text"), source = find("source"), target = find("target");
const status = find("status"), counter = find("counter"), detected = find("detected");
const attention = find("attention"), copy = find("copy");

let languages = [];
let limit = Infinity;
let alternatives = 0;
let timer = 0;
let running = new AbortController();

function say(message, isError = false) {
  status.textContent = message;
  status.classList.toggle("error", isError);
}

function option(code, name) {
  const element = document.createElement("option");
  element.value = code;
  element.textContent = name;
  return element;
}

function nameOf(code) {
  return languages.find((language) => language.code === code)?.name
    ?? new Intl.DisplayNames(["en"], { type: "language", fallback: "code" }).of(code);
}

function fillTargets() {
  const chosen = target.value;
  const entry = languages.find((language) => language.code === source.value);
  const codes = entry ? entry.targets : [...new Set(languages.flatMap((language) => language.targets))];
  target.replaceChildren(...codes.map((code) => option(code, nameOf(code))));
  if (codes.includes(chosen)) target.value = chosen;
}

function setDirections() {
  const direction = (code) => RIGHT_TO_LEFT.has(code.split("-")[0]) ? "rtl" : "ltr";
  const apply = (element, code) => {
    element.lang = code;
    element.dir = code ? direction(code) : "auto";
  };
  const from = source.value === "auto" ? "" : source.value;
  apply(text, from);
  apply(find("aligned-source"), from);
  apply(find("output"), target.value);
  apply(find("alternatives").querySelector("ol"), target.value);
}

// State in the fragment, which browsers do not send to the server.
function save() {
  const state = new URLSearchParams({ source: source.value, target: target.value, q: text.value });
  history.replaceState(null, "", `#${state}`);
}

function restore() {
  const state = new URLSearchParams(location.hash.slice(1) || location.search.slice(1));
  const codes = [...source.options].map((element) => element.value);
  if (codes.includes(state.get("source"))) source.value = state.get("source");
  fillTargets();
  if ([...target.options].some((element) => element.value === state.get("target"))) {
    target.value = state.get("target");
  }
  if (state.has("q")) text.value = state.get("q");
}

function changed(delay = DELAY) {
  clearTimeout(timer);
  running.abort();
  setDirections();
  save();
  const length = [...text.value].length;
  counter.textContent = Number.isFinite(limit) ? `${length} / ${limit}` : `${length}`;
  counter.classList.toggle("error", length > limit);
  detected.textContent = "";
  if (text.value.trim() === "") {
    output.show("");
    say("");
    enable(false);
    return;
  }
  output.stale();
  timer = setTimeout(translate, delay);
}

function enable(isEnabled) {
  copy.disabled = !isEnabled;
  attention.querySelector("button").disabled = !isEnabled || find("html").checked;
}

async function translate() {
  running = new AbortController();
  const { signal } = running;
  const request = {
    q: text.value,
    source: source.value,
    target: target.value,
    format: find("html").checked ? "html" : "text",
    line_breaks: find("join").checked ? "join" : "keep",
  };
  say("Translating…");
  let partial = "", failure = "", isFirst = true;
  try {
    await api.stream(request, signal, (name, data) => {
      if (signal.aborted) return;
      if (name === "sentence" && request.format === "text") {
        partial += (isFirst ? "" : data.before) + data.text;
        isFirst = false;
        output.show(partial);
      } else if (name === "done") {
        output.show(data.text);
        if (data.detected) {
          detected.textContent = `Detected: ${nameOf(data.detected.language)}`
            + (data.copied ? " (copied, not translated)" : "");
        }
        enable(true);
        say("");
      } else if (name === "error") {
        failure = data.error;
      }
    });
    if (failure) throw new api.ApiError(failure);
    if (request.format === "html") return;
    await new Promise((resolve) => setTimeout(resolve, DETAILS_DELAY));
    if (signal.aborted) return;
    const answer = await api.details(request, alternatives, signal);
    if (!signal.aborted) output.details(answer, (value) => output.show(value));
  } catch (error) {
    if (signal.aborted) return;
    enable(output.text() !== "");
    say(error instanceof api.ApiError ? error.message : "The server does not answer.", true);
  }
}

function swap() {
  const [from, to] = [source.value, target.value];
  if (![...source.options].some((element) => element.value === to)) {
    say(`No model translates from ${nameOf(to)}.`, true);
    return;
  }
  source.value = to;
  fillTargets();
  if ([...target.options].some((element) => element.value === from)) target.value = from;
  text.value = output.text();
  changed(0);
}

async function upload(content) {
  say(`Translating ${content.name}…`);
  try {
    const path = await api.file(content, source.value, target.value);
    const link = document.createElement("a");
    link.href = path;
    link.download = "";
    link.textContent = `Download ${path.split("/").pop()}`;
    status.replaceChildren(link);
    link.focus();
  } catch (error) {
    say(error instanceof api.ApiError ? error.message : "The server does not answer.", true);
  }
}

text.addEventListener("input", () => changed());
source.addEventListener("change", () => { fillTargets(); changed(0); });
target.addEventListener("change", () => changed(0));
find("join").addEventListener("change", () => changed(0));
find("html").addEventListener("change", () => changed(0));
find("swap").addEventListener("click", swap);
find("clear").addEventListener("click", () => { text.value = ""; text.focus(); changed(0); });
find("key").value = api.key.get();
find("key").addEventListener("change", (event) => { api.key.set(event.target.value); changed(0); });
find("file").addEventListener("change", (event) => {
  if (event.target.files[0]) upload(event.target.files[0]);
  event.target.value = "";
});
copy.addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(output.text());
    say("Copied.");
  } catch {
    // Without HTTPS there is no clipboard: the text is selected for the keyboard.
    getSelection().selectAllChildren(find("output"));
    say("Press Ctrl+C to copy.");
  }
});
attention.addEventListener("submit", () => {
  attention.elements.q.value = text.value;
  attention.elements.source.value = source.value;
  attention.elements.target.value = target.value;
  attention.elements.api_key.value = api.key.get();
});
document.addEventListener("keydown", (event) => {
  if (event.altKey && event.code === "KeyS") { event.preventDefault(); swap(); }
});
for (const name of ["dragover", "drop"]) {
  text.addEventListener(name, (event) => {
    if (![...event.dataTransfer.types].includes("Files")) return;
    event.preventDefault();
    if (name === "drop") upload(event.dataTransfer.files[0]);
  });
}

try {
  const settings = await api.settings();
  limit = settings.charLimit > 0 ? settings.charLimit : Infinity;
  alternatives = Math.min(settings.alternativesLimit, 3);
  document.getElementById("offline").hidden = !settings.offline;
  languages = await api.languages();
  source.replaceChildren(option("auto", "Detect language"), ...languages.filter(({ targets }) => targets.length > 0).map(({ code, name }) => option(code, name)));
  if (settings.language.source) source.value = settings.language.source.code;
  fillTargets();
  if (settings.language.target) target.value = settings.language.target.code;
  restore();
  document.body.dataset.ready = "true";
  changed(0);
} catch {
  say("The server does not answer.", true);
}
