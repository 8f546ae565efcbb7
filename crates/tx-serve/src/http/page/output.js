// The translation and its details. Text never becomes markup: only `textContent` is set.

const output = document.getElementById("output");
const aligned = document.getElementById("aligned");
const alignedSource = document.getElementById("aligned-source");
const alternatives = document.getElementById("alternatives");
const best = document.getElementById("score");

export function text() {
  return output.textContent;
}

export function show(value) {
  output.textContent = value;
  output.classList.remove("stale");
  hideDetails();
}

export function stale() {
  output.classList.add("stale");
}

function hideDetails() {
  aligned.hidden = true;
  alternatives.hidden = true;
  alignedSource.replaceChildren();
  alternatives.querySelector("ol").replaceChildren();
}

// Score of a text as a note: the mean of its sentences; empty if it is not known.
function scored(value) {
  return typeof value === "number" ? `score ${value.toFixed(2)}` : "";
}

// Replaces the words of one text by elements, which `parts` are `[text, id]`; white space has no id.
function fill(box, parts) {
  box.replaceChildren(...parts.map(([value, id]) => {
    if (id === null) return document.createTextNode(value);
    const word = document.createElement("span");
    word.className = "word";
    word.textContent = value;
    word.dataset.word = id;
    return word;
  }));
}

// Words of a text with ids `side.sentence.index`.
function words(value, side, sentence) {
  let index = 0;
  return value.split(/(\s+)/u).filter(Boolean).map((part) =>
    /^\s+$/u.test(part) ? [part, null] : [part, `${side}.${sentence}.${index++}`]);
}

// Words, separated by white space, whose probability is below `DOUBTFUL`, by their ids. A word with punctuation marks
// has the smallest probability of its parts.
const DOUBTFUL = 0.5;

function doubtful(sentence, number) {
  const parts = sentence.text.split(/(\s+)/u).filter(Boolean);
  const ends = [];
  let end = 0;
  for (const part of parts) {
    end += part.length;
    if (!/^\s+$/u.test(part)) ends.push(end);
  }
  const found = new Map();
  let position = 0;
  for (const { word, probability } of sentence.confidence?.words ?? []) {
    const at = sentence.text.indexOf(word, position);
    if (at < 0) continue;
    position = at + word.length;
    const id = `t.${number}.${ends.findIndex((end) => at < end)}`;
    if (probability < DOUBTFUL) found.set(id, Math.min(probability, found.get(id) ?? 1));
  }
  return found;
}

// Shows links between words, and alternatives with their scores.
export function details(answer, choose) {
  hideDetails();
  const sentences = answer.sentences ?? [];
  const links = new Map();
  const add = (from, to) => links.set(from, [...(links.get(from) ?? []), to]);
  const doubts = new Map();
  const target = [], source = [];
  let position = 0;
  sentences.forEach((sentence, number) => {
    const at = answer.text.indexOf(sentence.text, position);
    if (at < 0) return;
    target.push([answer.text.slice(position, at), null], ...words(sentence.text, "t", number));
    source.push(...words(sentence.source, "s", number), [" ", null]);
    position = at + sentence.text.length;
    doubtful(sentence, number).forEach((probability, id) => doubts.set(id, probability));
    for (const [from, to] of sentence.alignment?.links ?? []) {
      add(`s.${number}.${from}`, `t.${number}.${to}`);
      add(`t.${number}.${to}`, `s.${number}.${from}`);
    }
  });
  target.push([answer.text.slice(position), null]);
  if (links.size > 0 && output.textContent === answer.text) {
    fill(output, target);
    fill(alignedSource, source);
    aligned.hidden = false;
    link(links);
    for (const [id, probability] of doubts) {
      const word = output.querySelector(`[data-word="${CSS.escape(id)}"]`);
      word?.classList.add("doubtful");
      word?.setAttribute("title", `right with a probability of ${Math.round(100 * probability)} %`);
    }
  }
  const list = alternatives.querySelector("ol");
  const values = answer.alternatives ?? [];
  best.textContent = scored(answer.score);
  values.forEach((value, index) => {
    const row = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = value;
    button.addEventListener("click", () => choose(value));
    const note = document.createElement("span");
    note.className = "score";
    note.textContent = scored(answer.alternative_scores?.[index]);
    row.append(button, note);
    list.append(row);
  });
  alternatives.hidden = values.length === 0;
}

// Highlights the words that are aligned to the one under the pointer.
function link(links) {
  const boxes = [output, alignedSource];
  const mark = (id) => {
    for (const box of boxes) {
      for (const word of box.querySelectorAll(".linked")) word.classList.remove("linked");
    }
    for (const other of links.get(id) ?? []) {
      for (const box of boxes) box.querySelector(`[data-word="${CSS.escape(other)}"]`)?.classList.add("linked");
    }
  };
  for (const box of boxes) {
    box.onpointerover = (event) => mark(event.target.dataset?.word);
    box.onpointerleave = () => mark(undefined);
  }
  // With the keyboard: arrow keys move from word to word of the translation.
  let current = -1;
  output.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const all = output.querySelectorAll(".word");
    if (!step || all.length === 0) return;
    event.preventDefault();
    current = Math.min(Math.max(current + step, 0), all.length - 1);
    mark(all[current].dataset.word);
    all[current].classList.add("linked");
  };
}
