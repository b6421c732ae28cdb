"use strict";
// What all parts of the page share: the data, building elements (names are always text, never markup), unpacking,
// colours. Nothing here or below loads or sends anything.

const DATA = JSON.parse(document.getElementById("report-data").textContent);
const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. Attributes are set as text; `on` holds listeners by event. */
function html(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element, likewise. */
function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}

/** Bytes of deflated base64. */
async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Run `draw` whenever the reader changes between light and dark, prints, or the width of `node` changes. */
function redrawn(node, draw) {
  for (const query of ["(prefers-color-scheme: dark)", "print"]) window.matchMedia(query).addEventListener("change", draw);
  let width = 0;
  new ResizeObserver(() => {
    if (node.clientWidth !== width) {
      width = node.clientWidth;
      draw();
    }
  }).observe(node);
}

function isDark() {
  return window.matchMedia("(prefers-color-scheme: dark)").matches && !window.matchMedia("print").matches;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// Ramps run from the page's background to what stands out from it; lightness changes evenly, so they read without hue.
const RAMPS = {
  light: [[255, 255, 255], [198, 219, 239], [107, 174, 214], [33, 113, 181], [8, 48, 107]],
  dark: [[18, 22, 27], [16, 50, 88], [28, 98, 160], [98, 176, 230], [226, 242, 255]],
};
const DIVERGING = {
  light: [[166, 74, 0], [230, 145, 56], [250, 250, 250], [91, 155, 213], [8, 64, 129]],
  dark: [[255, 176, 103], [176, 98, 20], [18, 22, 27], [34, 98, 156], [140, 205, 255]],
};

/** 256 colours of a ramp as [r, g, b]. */
function ramp(stops) {
  return Array.from({ length: 256 }, (_, step) => {
    const place = (step / 255) * (stops.length - 1);
    const low = Math.min(stops.length - 2, Math.floor(place));
    const part = place - low;
    return stops[low].map((value, channel) => Math.round(value + part * (stops[low + 1][channel] - value)));
  });
}

function sequential() {
  return ramp(isDark() ? RAMPS.dark : RAMPS.light);
}

function diverging() {
  return ramp(isDark() ? DIVERGING.dark : DIVERGING.light);
}

/** Paint bytes (rows × columns) into a canvas of as many pixels, through 256 colours. */
function paint(canvas, bytes, columns, rows, colours) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let place = 0; place < columns * rows; place += 1) {
    const [red, green, blue] = colours[bytes[place]];
    image.data.set([red, green, blue, 255], place * 4);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** A legend of a ramp between two words. */
function rampLegend(colours, low, high) {
  const canvas = html("canvas", { "aria-hidden": "true" });
  paint(canvas, Uint8Array.from({ length: 256 }, (_, step) => step), 256, 1, colours);
  return html("span", { class: "legend" }, low, canvas, high);
}

function signed(value, digits = 2) {
  if (value === null || value === undefined) return "–";
  return (value < 0 ? "−" : "") + Math.abs(value).toFixed(digits);
}

function weight(value) {
  return value >= 0.001 ? value.toFixed(3) : value.toExponential(1);
}

/** A button that saves a file on the reader's machine; nothing is sent. `make` returns name, type and text. */
function saveButton(label, make) {
  const save = () => {
    const [name, type, text] = make();
    const link = html("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  return html("button", { type: "button", class: "save", title: `Save as ${label}`, on: { click: save } }, `↓ ${label}`);
}

/** A drawing as a file of its own: with the page's colours and fonts. */
function svgFile(node, box = node.getBoundingClientRect()) {
  const copy = node.cloneNode(true);
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("width", Math.round(box.width));
  copy.setAttribute("height", Math.round(box.height));
  if (!copy.hasAttribute("viewBox")) copy.setAttribute("viewBox", `0 0 ${Math.round(box.width)} ${Math.round(box.height)}`);
  copy.prepend(svg("style", {}, document.querySelector("style").textContent, "svg { background: var(--page); font-family: sans-serif; }"));
  return new XMLSerializer().serializeToString(copy);
}

/** Lines of a table of texts and numbers. */
function tsv(rows) {
  return rows.map((row) => row.map((cell) => String(cell === null || cell === undefined ? "" : cell).replace(/[\t\n]/g, " ")).join("\t")).join("\n") + "\n";
}

function fileName(...parts) {
  return parts.join("_").replace(/[^\w.+-]+/g, "_").slice(0, 80);
}

// Every drawing and table that needs no script gets its buttons.
for (const drawing of document.querySelectorAll("figure > svg.chart")) {
  drawing.parentElement.append(saveButton("SVG", () => [`${fileName(drawing.getAttribute("aria-label"))}.svg`, "image/svg+xml", svgFile(drawing)]));
}
for (const table of document.querySelectorAll(".scroll > table")) {
  const cells = (row) => [...row.cells].map((cell) => cell.textContent.trim());
  const name = fileName(table.closest("section").id, "table");
  const titles = table.tHead ? cells(table.tHead.rows[0]) : [];
  // On a narrow screen cells stand below each other, each beside the title of its column.
  for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, place) => { cell.dataset.title = titles[place] || ""; });
  table.parentElement.after(saveButton("TSV", () => [`${name}.tsv`, "text/tab-separated-values", tsv([...table.rows].map(cells))]));
}

function report(problem, node) {
  node.replaceChildren(html("p", {}, `This part cannot be shown: ${problem.message || problem}`));
}
