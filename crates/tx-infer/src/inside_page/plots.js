// Heat strips and matrices. Text never becomes markup: only `textContent` is set.

/** Creates an element. */
export function make(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined) continue;
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && key !== "list") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A number with four significant digits. */
export function digits(value) {
  if (value === -Infinity) return "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e-3 && size < 1e5 ? value.toPrecision(4) : value.toExponential(2);
  return text.replace("-", "−");
}

/** A number for a cell of a matrix. */
export function short(value) {
  if (value === -Infinity) return "−∞";
  return (Math.abs(value) < 10 ? value.toFixed(2) : value.toFixed(1)).replace("-", "−");
}

/** Printable form of a token. A dot takes the place of the joiner, to which no space belongs. */
export function printable(token) {
  if (token !== "" && token.trim() === "") return "␣".repeat([...token].length);
  return token.replaceAll("▁", "_").replaceAll("\uffed", "·");
}

/** Colors as red, green and blue, from the style of the page. */
function palette() {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => {
    const text = style.getPropertyValue(name).trim();
    return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  };
  return { negative: color("--negative"), zero: color("--zero"), positive: color("--positive") };
}

/** Color of a value between `-most` and `most`. */
function colorOf(value, most, { negative, zero, positive }) {
  if (!Number.isFinite(value)) return zero;
  const share = Math.min(Math.abs(value) / (most || 1), 1);
  const end = value < 0 ? negative : positive;
  return zero.map((from, index) => Math.round(from + share * (end[index] - from)));
}

/** Black or white, whichever contrasts more with a color (WCAG 2, relative luminance). */
function inkOn(color) {
  const linear = color.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  const luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 ? "#fff" : "#000";
}

function largest(values) {
  let most = 0;
  for (const value of values) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
  return most;
}

function paint(canvas, values, width, most = largest(values)) {
  const height = values.length / width;
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const colors = palette();
  for (let index = 0; index < values.length; index++) {
    image.data.set(colorOf(values[index], most, colors), 4 * index);
    image.data[4 * index + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

/**
 * Heat strip of `values`, row by row, with `width` numbers a row. Pointing at a number, or moving to it with the arrow
 * keys, prints it.
 */
export function strip(title, values, width, labels, { from = 0, marked } = {}) {
  const rows = values.length / width;
  const canvas = make("canvas", { tabIndex: 0, role: "img" });
  canvas.setAttribute("aria-label", `${title}: ${rows} × ${width} numbers; read them with the arrow keys`);
  paint(canvas, values, width);
  canvas.style.height = `${Math.max(rows, 1) * 1.25}rem`;
  const readout = make("output", { class: "readout" });
  let at = [0, 0];
  const print = (row, column) => {
    at = [Math.min(Math.max(row, 0), rows - 1), Math.min(Math.max(column, 0), width - 1)];
    const value = values[at[0] * width + at[1]];
    readout.textContent = `${printable(labels[at[0]])}, feature ${from + at[1]}: ${digits(value)}`;
    readout.dataset.value = String(value);
  };
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    print(Math.floor((rows * (event.clientY - box.top)) / box.height), Math.floor((width * (event.clientX - box.left)) / box.width));
  });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    print(at[0] + move[0], at[1] + move[1]);
  });
  const names = labels.slice(0, rows).map((label, row) =>
    make("span", { class: row === marked ? "marked" : undefined, dir: "auto" }, printable(label)));
  return make("figure", { class: "strip" },
    make("figcaption", {}, title, make("span", { class: "note" }, ` ${rows} × ${width}`), readout),
    make("div", { class: "body" }, make("div", { class: "names", ariaHidden: "true" }, ...names), canvas));
}

/** Largest number of cells of a matrix that is drawn with its numbers. */
const CELLS = 1024;

/**
 * Matrix of `values`, `[rows, columns]`, whose cells can be selected. A large one is drawn as a strip.
 */
export function matrix(title, values, rows, columns, { selected, select, marked, note } = {}) {
  if (rows.length * columns.length > CELLS) return strip(title, values, columns.length, rows, { marked });
  const most = largest(values);
  const colors = palette();
  const width = columns.length;
  const cell = (row, column) => {
    const value = values[row * width + column];
    const color = colorOf(value, most, colors);
    const isSelected = selected?.[0] === row && selected?.[1] === column;
    const button = make("button", {
      type: "button",
      tabIndex: isSelected || (!selected && row === 0 && column === 0) ? 0 : -1,
      ariaPressed: String(isSelected),
      ariaLabel: `${printable(rows[row])}, ${printable(columns[column])}: ${short(value)}`,
      onclick: () => select?.(row, column),
    }, short(value));
    Object.assign(button.dataset, { row, column, value: String(value) });
    button.style.background = `rgb(${color})`;
    button.style.color = inkOn(color);
    return make("td", { class: value === -Infinity ? "hidden-key" : undefined }, button);
  };
  const table = make("table", {},
    make("thead", {}, make("tr", {}, make("td"), ...columns.map((name) => make("th", { scope: "col", dir: "auto" }, printable(name))))),
    make("tbody", {}, ...rows.map((name, row) => make("tr", { class: row === marked ? "marked" : undefined },
      make("th", { scope: "row", dir: "auto" }, printable(name)), ...columns.map((_, column) => cell(row, column))))));
  table.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const { row, column } = event.target.dataset;
    if (!move || row === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const next = table.querySelector(`[data-row="${Number(row) + move[0]}"][data-column="${Number(column) + move[1]}"]`);
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  return make("figure", { class: "matrix" },
    make("figcaption", {}, title, note ? make("span", { class: "note" }, ` ${note}`) : null),
    make("div", { class: "scroll", tabIndex: -1 }, table));
}

/** Small picture of a matrix. */
export function thumbnail(values, width) {
  const canvas = make("canvas", { ariaHidden: "true" });
  paint(canvas, values, width, 1);
  return canvas;
}
