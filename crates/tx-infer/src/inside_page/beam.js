// The tree of a beam search.

import { digits, make, printable } from "./plots.js";

/** Draws the candidates of each step and the hypotheses that have ended. */
export function beamTree({ beam, hypotheses }) {
  const nodes = [];
  /** Nodes that the next step continues. */
  let live = [{ ids: [], texts: [] }];
  const chosen = hypotheses[0].ids;
  const most = Math.max(...beam.map((candidates) => candidates.length));
  const [WIDTH, HEIGHT] = [112, 34];
  const columns = beam.map((candidates, step) => {
    const column = candidates.map((candidate, rank) => {
      const parent = live[candidate.parent];
      const ids = [...parent.ids, candidate.id];
      const isChosen = ids.every((id, index) => chosen[index] === id);
      return { ...candidate, from: parent, ids, texts: [...parent.texts, printable(candidate.token)], isChosen, x: step * WIDTH + 24, y: rank * HEIGHT + 8 };
    });
    live = column.filter(({ outcome }) => outcome === "kept");
    nodes.push(...column);
    return column;
  });
  const svg = (name, attributes, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const readout = make("output", { class: "readout block" }, "Point at a node to read its hypothesis.");
  const describe = ({ texts, log_probability, outcome }) => `${texts.join(" ")}: log-probability ${digits(log_probability)}, ${outcome}`;
  const edges = nodes.filter(({ from }) => from.x !== undefined).map(({ from, x, y, isChosen, outcome }) =>
    svg("path", { d: `M${from.x + 88} ${from.y + 13} C${from.x + 104} ${from.y + 13} ${x - 16} ${y + 13} ${x} ${y + 13}`, class: `edge ${outcome} ${isChosen ? "best" : ""}` }));
  const boxes = nodes.map((node) => {
    const { x, y, token, outcome, isChosen, log_probability } = node;
    const text = printable(token);
    const made = svg("g", { class: `node ${outcome} ${isChosen ? "best" : ""}`, transform: `translate(${x} ${y})`, role: "img", tabindex: "0" },
      svg("rect", { width: 88, height: 26, rx: 4 }),
      svg("text", { x: 6, y: 17 }, [...text].length > 7 ? `${[...text].slice(0, 6).join("")}…` : text),
      svg("text", { x: 82, y: 17, "text-anchor": "end", class: "number" }, log_probability.toFixed(1).replace("-", "−")));
    made.setAttribute("aria-label", describe(node));
    for (const name of ["pointerenter", "focus"]) made.addEventListener(name, () => { readout.textContent = describe(node); });
    return made;
  });
  const picture = svg("svg", { width: columns.length * WIDTH + 24, height: most * HEIGHT + 16, role: "group", "aria-label": "Tree of the beam search" }, ...edges, ...boxes);
  const rows = hypotheses.map(({ text, log_probability, score }) => make("tr", {},
    make("th", { scope: "row", dir: "auto" }, text), make("td", {}, digits(log_probability)), make("td", {}, digits(score))));
  return [
    make("figure", { class: "beam" }, make("figcaption", {}, "Continuations of each step, best first", readout),
      make("div", { class: "scroll", tabIndex: 0, role: "region", ariaLabel: "Tree of the beam search" }, picture)),
    make("figure", { class: "matrix" }, make("figcaption", {}, "Hypotheses that have ended"),
      make("div", { class: "scroll", tabIndex: 0, role: "region", ariaLabel: "Hypotheses" }, make("table", { class: "plain" },
        make("thead", {}, make("tr", {}, ...["translation", "log-probability", "score"].map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, ...rows)))),
  ];
}
