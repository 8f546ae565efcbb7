"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const data = JSON.parse(at("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const state = { ...data.start, full: false, row: null, column: null };
  // Token or cell under the pointer; it takes precedence over the selection.
  let hovered = null;

  // ---- State --------------------------------------------------------------------------------

  const kind = () => data.kinds.find((kind) => kind.name === state.kind);
  const isWords = () => state.words && hasPieces();
  const hasPieces = () => [kind().rows, kind().columns].some((side) => data.sides[side].words.length < data.sides[side].tokens.length);
  const names = (side) => (isWords() ? data.sides[side].words : data.sides[side].tokens);

  /** Weights of one map, 0 to 1, row by row; head 0 is the mean of all. */
  function weights(layer, head) {
    const heads = kind().layers[layer - 1];
    const chosen = head === 0 ? heads : [heads[head - 1]];
    const width = data.sides[kind().columns].tokens.length;
    const flat = chosen[0].map((_, place) => chosen.reduce((sum, map) => sum + map[place], 0) / chosen.length / data.unit);
    const rows = [];
    for (let start = 0; start < flat.length; start += width) rows.push(flat.slice(start, start + width));
    if (!isWords()) return rows;
    const from = data.sides[kind().rows], to = data.sides[kind().columns];
    const sizes = from.words.map((_, group) => from.groups.filter((other) => other === group).length);
    const merged = from.words.map(() => to.words.map(() => 0));
    rows.forEach((row, r) => row.forEach((weight, c) => { merged[from.groups[r]][to.groups[c]] += weight / sizes[from.groups[r]]; }));
    return merged;
  }

  const largest = (map) => map.reduce((most, row) => row.reduce((a, b) => Math.max(a, b), most), 0);
  /** Weight of the darkest color: the largest weight, rounded up to a tenth. */
  const top = (map) => (state.full ? 1 : Math.min(1, Math.max(0.1, Math.ceil(10 * largest(map) - 0.001) / 10)));

  // ---- Colors and numbers -------------------------------------------------------------------

  function rgb(fraction) {
    const scale = dark.matches ? data.scale.dark : data.scale.light;
    const position = Math.min(1, Math.max(0, fraction)) * (scale.length - 1);
    const low = Math.floor(position), high = Math.min(low + 1, scale.length - 1);
    const channel = (hex, index) => parseInt(hex.slice(1 + 2 * index, 3 + 2 * index), 16);
    return [0, 1, 2].map((i) => Math.round(channel(scale[low], i) + (position - low) * (channel(scale[high], i) - channel(scale[low], i))));
  }
  function ink(color) {
    const [r, g, b] = color.map((c) => { const v = c / 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
  }
  function paint(element, fraction) {
    const color = rgb(fraction);
    element.style.backgroundColor = `rgb(${color.join(",")})`;
    element.style.color = ink(color);
  }
  const three = (weight) => weight.toFixed(3);
  const two = (weight) => weight.toFixed(2).replace(/^0/, "");
  /** Label in a sentence: without joiners, unless it consists of them. */
  const plain = (name) => name.replaceAll("\uffed", "") || name;
  const quoted = (name) => `\u201c\u2068${plain(name)}\u2069\u201d`;

  // ---- Drawing -------------------------------------------------------------------------------

  const make = (tag, text) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  /** Appends a label, with joiners drawn by the style sheet because few fonts contain the character. */
  function label(element, name) {
    name.split("\uffed").forEach((part, index) => {
      if (index > 0) {
        const joiner = make("i");
        joiner.className = "joiner";
        element.append(joiner);
      }
      element.append(part);
    });
    return element;
  }
  let map = [], most = 1;

  function draw() {
    map = weights(state.layer, state.head);
    most = top(map);
    const page = at("page");
    Object.assign(page.dataset, { kind: state.kind, layer: state.layer, head: state.head || "mean", words: isWords() });
    for (const radio of document.querySelectorAll("#kinds input")) radio.checked = radio.value === state.kind;
    choices(at("layer"), kind().layers.map((_, index) => [index + 1, index + 1]), state.layer);
    choices(at("head"), [[0, "mean"], ...kind().layers[0].map((_, index) => [index + 1, index + 1])], state.head);
    at("words-label").hidden = !hasPieces();
    at("words").checked = isWords();
    at("full").checked = state.full;
    at("about").textContent = kind().about;
    const head = state.head === 0 ? "mean of heads" : `head ${state.head}`;
    at("map-title").textContent = `${kind().title}, layer ${state.layer} of ${kind().layers.length}, ${head}`;
    drawLine("keys", names(kind().columns), kind().columnsName);
    drawLine("queries", names(kind().rows), kind().rowsName);
    drawMap();
    drawOverview();
    at("ramp").style.background = `linear-gradient(to right, ${[...Array(11).keys()].map((step) => `rgb(${rgb(step / 10).join(",")})`).join(",")})`;
    at("most").textContent = two(most).replace(/^\./, "0.");
    mark();
  }

  function choices(select, options, chosen) {
    select.replaceChildren(...options.map(([value, name]) => {
      const option = make("option", name);
      option.value = value;
      option.selected = value === chosen;
      return option;
    }));
  }

  function drawLine(id, tokens, name) {
    const line = at(id);
    at(`${id}-name`).textContent = name;
    line.setAttribute("aria-label", `${name} tokens: select with the arrow keys`);
    line.replaceChildren(...tokens.map((token, index) => {
      const element = make("span");
      element.append(label(make("bdi"), token), make("span"));
      element.lastChild.className = "number";
      element.setAttribute("role", "option");
      element.dataset[id === "queries" ? "row" : "column"] = index;
      element.tabIndex = index === 0 ? 0 : -1;
      return element;
    }));
  }

  function drawMap() {
    const rows = names(kind().rows), columns = names(kind().columns);
    const cell = Math.max(14, Math.min(36, Math.floor(900 / columns.length)));
    const table = at("map");
    table.style.setProperty("--cell", `${cell}px`);
    const headRow = make("tr");
    headRow.append(make("td"));
    headRow.firstChild.style.border = "0";
    headRow.firstChild.setAttribute("aria-hidden", "true");
    columns.forEach((name, index) => {
      const header = make("th");
      header.scope = "col";
      header.dataset.column = index;
      header.append(label(make("span"), name));
      // A label that fits is horizontal.
      if ([...name].length * 10 <= cell) header.className = "upright";
      headRow.append(header);
    });
    const body = make("tbody");
    rows.forEach((name, row) => {
      const line = make("tr");
      const header = label(make("th"), name);
      header.scope = "row";
      header.dataset.row = row;
      line.append(header);
      map[row].forEach((weight, column) => {
        const element = make("td", cell >= 26 && weight >= 0.05 ? two(weight) : "");
        element.setAttribute("role", "gridcell");
        element.setAttribute("aria-label", `${plain(name)} → ${plain(columns[column])}: ${three(weight)}`);
        element.dataset.row = row;
        element.dataset.column = column;
        element.tabIndex = row === 0 && column === 0 ? 0 : -1;
        paint(element, weight / most);
        line.append(element);
      });
      body.append(line);
    });
    const head = make("thead");
    head.append(headRow);
    table.replaceChildren(head, body);
  }

  function drawOverview() {
    const layers = kind().layers;
    const all = layers.map((heads, layer) => heads.map((_, head) => weights(layer + 1, head + 1)));
    const common = Math.max(...all.flat().map(top));
    const box = at("thumbnails");
    box.style.gridTemplateColumns = `repeat(${layers[0].length}, max-content)`;
    const room = Math.max(60, Math.min(170, box.parentElement.clientWidth / layers[0].length - 26));
    box.replaceChildren(...all.flatMap((heads, layer) => heads.map((weights, head) => {
      const button = make("button");
      button.type = "button";
      button.dataset.layer = layer + 1;
      button.dataset.head = head + 1;
      button.setAttribute("aria-pressed", String(state.layer === layer + 1 && state.head === head + 1));
      const canvas = make("canvas");
      const [height, width] = [weights.length, weights[0].length];
      const scale = Math.max(1, Math.min(14, Math.floor(room / Math.max(height, width))));
      Object.assign(canvas, { width, height });
      Object.assign(canvas.style, { width: `${width * scale}px`, height: `${height * scale}px` });
      const image = new ImageData(width, height);
      weights.flat().forEach((weight, index) => image.data.set([...rgb(weight / common), 255], 4 * index));
      canvas.getContext("2d").putImageData(image, 0, 0);
      canvas.setAttribute("aria-hidden", "true");
      button.append(make("span", `layer ${layer + 1}, head ${head + 1}`), canvas);
      return button;
    })));
  }

  /** Shows the weights of the hovered or selected token or cell. */
  function mark() {
    const { row, column } = hovered ?? state;
    const rows = names(kind().rows), columns = names(kind().columns);
    const isRow = row !== null, isColumn = column !== null;
    const line = (id, values, chosen) => [...at(id).children].forEach((element, index) => {
      element.classList.toggle("chosen", index === chosen);
      element.setAttribute("aria-selected", String(index === chosen));
      const weight = values?.[index];
      element.lastChild.textContent = weight === undefined || weight < 0.005 ? "" : two(weight);
      if (weight === undefined) element.style.backgroundColor = element.style.color = "";
      else paint(element, weight / most);
    });
    line("keys", isRow ? map[row] : undefined, column);
    line("queries", isColumn && !isRow ? map.map((weights) => weights[column]) : undefined, row);
    for (const element of at("map").querySelectorAll(".chosen, .in-column")) element.classList.remove("chosen", "in-column");
    for (const element of at("map").querySelectorAll("th")) {
      element.classList.toggle("chosen", (isRow && element.dataset.row === String(row)) || (isColumn && element.dataset.column === String(column)));
    }
    const lines = at("map").tBodies[0].rows;
    if (isRow) lines[row].classList.add("chosen");
    if (isColumn) for (const line of lines) line.cells[column + 1].classList.add("in-column");
    if (isRow && isColumn) lines[row].cells[column + 1].classList.add("chosen");
    at("status").textContent = sentence(row, column, rows, columns);
    Object.assign(at("page").dataset, { focus: state.row === null ? "" : state.row + 1, column: state.column === null ? "" : state.column + 1 });
  }

  function sentence(row, column, rows, columns) {
    if (row === null && column === null) return "";
    if (row !== null && column !== null) return `${quoted(rows[row])} attends to ${quoted(columns[column])}: ${three(map[row][column])}`;
    const listed = (names, values) => values.map((weight, index) => [weight, names[index]])
      .sort((a, b) => b[0] - a[0]).slice(0, 3).filter(([weight]) => weight >= 0.0005)
      .map(([weight, name]) => `${quoted(name)} ${three(weight)}`).join(", ") || "nothing";
    return row !== null ? `${quoted(rows[row])} attends to ${listed(columns, map[row])}`
      : `${quoted(columns[column])} receives attention from ${listed(rows, map.map((weights) => weights[column]))}`;
  }

  // ---- Address, so that a view can be saved and shared -----------------------------------------

  function readAddress() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const number = (key, most) => {
      const value = Number(wanted.get(key));
      return Number.isInteger(value) && value >= 1 && value <= most ? value : null;
    };
    if (data.kinds.some(({ name }) => name === wanted.get("kind"))) state.kind = wanted.get("kind");
    if (wanted.has("words")) state.words = wanted.get("words") === "true";
    state.layer = number("layer", kind().layers.length) ?? Math.min(state.layer, kind().layers.length);
    state.head = wanted.get("head") === "mean" ? 0 : number("head", kind().layers[0].length) ?? state.head;
    const place = (key, side) => { const value = number(key, names(side).length); return value === null ? null : value - 1; };
    state.row = place("focus", kind().rows);
    state.column = place("column", kind().columns);
  }

  function writeAddress() {
    const parts = [`kind=${state.kind}`, `layer=${state.layer}`, `head=${state.head || "mean"}`];
    if (isWords()) parts.push("words=true");
    if (state.row !== null) parts.push(`focus=${state.row + 1}`);
    if (state.column !== null) parts.push(`column=${state.column + 1}`);
    // Some browsers reject this for local files; the page works without it.
    try { history.replaceState(null, "", `#${parts.join("&")}`); } catch { /* as above */ }
  }

  function change(changes) {
    const before = [state.kind, isWords()].join();
    Object.assign(state, changes);
    state.layer = Math.min(state.layer, kind().layers.length);
    state.head = Math.min(state.head, kind().layers[0].length);
    // The selection refers to tokens of the previous view.
    if ([state.kind, isWords()].join() !== before) state.row = state.column = null;
    hovered = null;
    draw();
    writeAddress();
  }

  // ---- Pointer and keys ------------------------------------------------------------------------

  const place = (target) => {
    const element = target.closest?.("#map [data-row], #map [data-column], .tokens [data-row], .tokens [data-column]");
    if (!element) return null;
    const index = (key) => (key in element.dataset ? Number(element.dataset[key]) : null);
    return { row: index("row"), column: index("column") };
  };

  function hover(target, x, y) {
    const next = place(target);
    if (JSON.stringify(next) !== JSON.stringify(hovered)) { hovered = next; mark(); }
    const tip = at("tip");
    const isCell = next !== null && next.row !== null && next.column !== null;
    tip.hidden = !isCell;
    if (!isCell) return;
    tip.textContent = `${quoted(names(kind().rows)[next.row])} → ${quoted(names(kind().columns)[next.column])}: ${three(map[next.row][next.column])}`;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
    tip.style.top = `${y + 18 + height > innerHeight ? y - height - 12 : y + 18}px`;
  }

  document.addEventListener("pointermove", (event) => hover(event.target, event.clientX, event.clientY));
  document.addEventListener("pointerleave", () => hover(document.body, 0, 0));
  document.addEventListener("focusin", (event) => {
    const chosen = place(event.target);
    if (!chosen || !event.target.matches(":focus-visible")) return;
    hold(chosen);
    const box = event.target.getBoundingClientRect();
    hovered = null;
    if (chosen.row !== null && chosen.column !== null) hover(event.target, box.right - 10, box.bottom - 12);
  });
  document.addEventListener("focusout", () => { at("tip").hidden = true; });
  function hold({ row, column }) {
    Object.assign(state, { row, column });
    mark();
    writeAddress();
  }
  at("page").addEventListener("click", (event) => {
    const button = event.target.closest("#thumbnails button");
    if (button) {
      const { layer, head } = button.dataset;
      change({ layer: Number(layer), head: Number(head) });
      at("thumbnails").querySelector('[aria-pressed="true"]')?.focus();
      return;
    }
    const chosen = place(event.target);
    if (chosen) hold(chosen);
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { hovered = null; at("tip").hidden = true; return hold({ row: null, column: null }); }
    const current = event.target;
    const here = place(current);
    if (!here || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); return hold(here); }
    const isCell = current.tagName === "TD";
    const isRightToLeft = !isCell && getComputedStyle(current.parentElement).direction === "rtl";
    const steps = { ArrowRight: [0, isRightToLeft ? -1 : 1], ArrowLeft: [0, isRightToLeft ? 1 : -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
    const step = steps[event.key];
    let next = null;
    if (isCell) {
      const lines = at("map").tBodies[0].rows;
      const [row, column] = event.key === "Home" ? [here.row, 0] : event.key === "End" ? [here.row, lines[0].cells.length - 2]
        : step ? [here.row + step[0], here.column + step[1]] : [-1, 0];
      next = column >= 0 ? lines[row]?.cells[column + 1] : null;
    } else {
      const all = [...current.parentElement.children];
      const other = at(current.parentElement.id === "keys" ? "queries" : "keys");
      if (event.key === "Home") next = all[0];
      else if (event.key === "End") next = all.at(-1);
      else if (step?.[1]) next = all[all.indexOf(current) + step[1]];
      else if (step) next = other.children[Math.min(all.indexOf(current), other.children.length - 1)];
    }
    if (event.key === "Home" || event.key === "End" || step) event.preventDefault();
    if (!next) return;
    const group = next.closest(".tokens, table");
    for (const element of group.querySelectorAll('[tabindex="0"]')) element.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });

  // ---- Start -----------------------------------------------------------------------------------

  data.kinds.forEach(({ name, title }) => {
    const label = make("label");
    const radio = make("input");
    Object.assign(radio, { type: "radio", name: "kind", value: name });
    radio.addEventListener("change", () => change({ kind: name }));
    label.append(radio, ` ${title}`);
    at("kinds").append(label);
  });
  at("controls").addEventListener("submit", (event) => event.preventDefault());
  at("layer").addEventListener("change", (event) => change({ layer: Number(event.target.value) }));
  at("head").addEventListener("change", (event) => change({ head: Number(event.target.value) }));
  at("words").addEventListener("change", (event) => change({ words: event.target.checked }));
  at("full").addEventListener("change", (event) => change({ full: event.target.checked }));
  addEventListener("hashchange", () => { readAddress(); draw(); });
  dark.addEventListener("change", draw);
  readAddress();
  draw();
})();
