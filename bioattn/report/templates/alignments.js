// Pages of proteins: contact map, attention by layer and head, alignment; a pair marked in one is marked in all.

const TINTS = {
  light: { AVILMFWC: "#cfe3f5", KRH: "#f9d3bd", DE: "#ecd0e4", STNQY: "#cdebdd", GP: "#f5e6b8" },
  dark: { AVILMFWC: "#1f4566", KRH: "#6b3413", DE: "#5c3450", STNQY: "#14523d", GP: "#5c4a12" },
};
const CELL = { width: 11, height: 15 };

function alignmentBrowser(host) {
  const proteins = DATA.alignments;
  const state = { protein: null, maps: null, head: 0, kind: null, pair: [0, 0], pinned: false };

  const contactCanvas = mapCanvas("contact-map", "Contact map; arrow keys move the pair");
  const attentionCanvas = mapCanvas("attention-map", "Attention of the chosen head, queries down, keys across; arrow keys move the pair");
  const contactTicks = svg("svg", { class: "ticks", "aria-hidden": "true" });
  const attentionTicks = svg("svg", { class: "ticks", "aria-hidden": "true" });
  const contactTitle = html("h3", {});
  const attentionTitle = html("h3", { id: "attention-title" });
  const contactLegend = html("div", {});
  const attentionLegend = html("div", {});
  const readout = html("output", { id: "pair-readout", "aria-live": "polite" });
  const heads = html("div", { class: "heads", id: "heads" });
  const profile = html("div", { id: "row-profile" });
  const rowCanvas = html("canvas", { id: "alignment-rows", role: "img", "aria-label": "The alignment, a row for each sequence" });
  const nameCanvas = html("canvas", { "aria-hidden": "true" });
  const scroller = html("div", { class: "alignment", tabindex: 0, role: "region", "aria-label": "Alignment" },
    html("div", { class: "names" }, nameCanvas), rowCanvas);
  const alignmentTitle = html("h3", {});
  const kinds = html("select", { id: "kind", on: { change: () => { state.kind = kinds.value; chooseFirstHead(); } } });
  const choice = html("select", { id: "protein", on: { change: () => choose(Number(choice.value)) } },
    proteins.map((protein, number) => html("option", { value: number }, protein.id)));

  function mapCanvas(id, label) {
    const canvas = html("canvas", { id, tabindex: 0, role: "img", "aria-label": label });
    canvas.addEventListener("pointermove", (event) => { if (!state.pinned) mark(...pairAt(canvas, event)); });
    canvas.addEventListener("click", (event) => { state.pinned = !state.pinned; mark(...pairAt(canvas, event)); });
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      if (!(event.key in moves)) return;
      event.preventDefault();
      const size = state.protein.sequence.length;
      mark(...state.pair.map((place, axis) => Math.max(0, Math.min(size - 1, place + moves[event.key][axis]))));
    });
    return canvas;
  }

  function pairAt(canvas, event) {
    const box = canvas.getBoundingClientRect();
    const size = state.protein.sequence.length;
    const place = (offset, length) => Math.max(0, Math.min(size - 1, Math.floor((offset / length) * size)));
    return [place(event.clientY - box.top, box.height), place(event.clientX - box.left, box.width)];
  }

  async function choose(number) {
    const protein = proteins[number];
    const unpacked = async (text) => (text ? inflate(text) : null);
    const maps = {
      contact: await unpacked(protein.contact),
      distance: await unpacked(protein.distance),
      truth: await unpacked(protein.truth),
      heads: await Promise.all(protein.heads.map((head) => inflate(head.map))),
    };
    state.protein = protein;
    state.maps = maps;
    state.pinned = false;
    const known = [...new Set(protein.heads.map((head) => head.kind))];
    kinds.replaceChildren(...known.map((kind) => html("option", { value: kind }, kind)));
    state.kind = known[0] || null;
    const score = (head) => (head.precision === null ? head.agreement || 0 : head.precision);
    const mine = protein.heads.map((head, place) => [head.kind === state.kind ? score(head) : -9, place]);
    state.head = mine.length ? mine.reduce((best, each) => (each[0] > best[0] ? each : best))[1] : 0;
    state.pair = likeliest();
    draw();
  }

  /** The pair to begin with: the likeliest contact far apart, else the largest weight. */
  function likeliest() {
    const size = state.protein.sequence.length;
    const values = state.maps.contact || state.maps.heads[state.head];
    let best = [0, Math.min(size - 1, 6)];
    let most = -1;
    for (let i = 0; values && i < size; i += 1) {
      for (let j = i + 6; j < size; j += 1) if (values[i * size + j] > most) { most = values[i * size + j]; best = [i, j]; }
    }
    return best;
  }

  function chooseFirstHead() {
    state.head = state.protein.heads.findIndex((head) => head.kind === state.kind);
    draw();
  }

  function mark(i, j) {
    state.pair = [i, j];
    drawMaps();
    drawRows();
    drawProfile();
    say();
  }

  function draw() {
    if (!state.protein) return;
    drawHeads();
    drawMaps();
    drawRows(true);
    drawProfile();
    say();
  }

  function headName(head) {
    return `block ${head.block}${head.head === null ? "" : `, head ${head.head}`}`;
  }

  function drawMaps() {
    const { protein, maps } = state;
    const size = protein.sequence.length;
    const lower = maps.truth ? `structure (${protein.truth_source})` : maps.distance ? "expected distance" : "the same";
    const show = Boolean(maps.contact);
    contactCanvas.parentElement.hidden = !show;
    if (show) {
      const bytes = new Uint8Array(size * size);
      for (let i = 0; i < size; i += 1) {
        for (let j = 0; j < size; j += 1) {
          const place = i * size + j;
          if (j >= i || lower === "the same") bytes[place] = maps.contact[place];
          else if (maps.truth) bytes[place] = maps.truth[place] === 2 ? 255 : maps.truth[place] === 0 ? 40 : 0;
          else bytes[place] = Math.max(0, 255 - Math.round((maps.distance[place] / 10 / 20) * 255));
          // Neighbours in the chain always touch: faint, so that they do not outshine what was asked.
          if (Math.abs(protein.columns[i] - protein.columns[j]) < 6) bytes[place] *= 0.3;
        }
      }
      paintMap(contactCanvas, bytes, size);
      drawTicks(contactTicks, contactCanvas);
      contactTitle.textContent = `Contacts. Above the diagonal: predicted; below: ${lower}`;
      contactLegend.replaceChildren(rampLegend(sequential(), "probability 0", "1"),
        html("span", { class: "legend" }, maps.truth ? "below: closer than 8 Å; faint: not in the structure, or less than 6 columns apart"
          : maps.distance ? "below: expected distance, 20 to 0 Å; no structure was given; faint: less than 6 columns apart" : ""));
    }
    const head = protein.heads[state.head];
    attentionCanvas.parentElement.hidden = !head;
    if (head) {
      paintMap(attentionCanvas, maps.heads[state.head], size);
      drawTicks(attentionTicks, attentionCanvas);
      attentionTitle.textContent = `Attention: ${head.kind}, ${headName(head)}`;
      attentionLegend.replaceChildren(rampLegend(sequential(), "0", weight(head.largest)),
        html("span", { class: "legend" }, "weight, drawn by its square root; a row is a query"));
    }
  }

  /** Residue numbers along the upper and the left side of a map. */
  function drawTicks(ticks, canvas) {
    const { columns } = state.protein;
    const size = columns.length;
    const side = canvas.clientWidth;
    const margin = canvas.offsetLeft;
    const wanted = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((step) => (size / step) * 34 <= side) || 1000;
    const marks = columns.flatMap((column, place) => {
      if (column % wanted) return [];
      const at = margin + ((place + 0.5) / size) * side;
      return [svg("text", { x: at, y: margin - 6, "text-anchor": "middle", class: "tick" }, String(column)),
        svg("path", { d: `M${at} ${margin - 4}V${margin}M${margin - 4} ${at}H${margin}`, class: "axis" }),
        svg("text", { x: margin - 6, y: at + 4, "text-anchor": "end", class: "tick" }, String(column))];
    });
    ticks.setAttribute("viewBox", `0 0 ${margin + side} ${margin + side}`);
    ticks.replaceChildren(...marks);
  }

  /** A map as drawn, with its ticks. */
  function saveMap(canvas, ticks, kind) {
    const whole = ticks.cloneNode(true);
    const margin = canvas.offsetLeft;
    whole.prepend(svg("image", { x: margin, y: margin, width: canvas.clientWidth, height: canvas.clientWidth, href: canvas.toDataURL() }));
    const head = state.protein.heads[state.head];
    const name = kind === "attention" && head ? fileName(state.protein.id, head.site, headName(head)) : fileName(state.protein.id, kind);
    return [`${name}.svg`, "image/svg+xml", svgFile(whole, ticks.getBoundingClientRect())];
  }

  /** Every pair with what the page knows of it. */
  function savePairs() {
    const { protein, maps } = state;
    const size = protein.sequence.length;
    const head = protein.heads[state.head];
    const rows = [["column_i", "column_j", "residue_i", "residue_j", "contact_probability", "expected_distance", "in_structure",
      head ? `attention of ${head.site}, ${headName(head)} (i to j)` : "attention"]];
    for (let i = 0; i < size; i += 1) {
      for (let j = i + 1; j < size; j += 1) {
        const place = i * size + j;
        rows.push([protein.columns[i], protein.columns[j], protein.sequence[i], protein.sequence[j],
          maps.contact ? (maps.contact[place] / 255).toFixed(3) : "", maps.distance ? (maps.distance[place] / 10).toFixed(1) : "",
          maps.truth ? ["", "apart", "contact"][maps.truth[place]] : "",
          head ? ((maps.heads[state.head][place] / 255) ** 2 * head.largest).toPrecision(3) : ""]);
      }
    }
    return [`${fileName(protein.id, "pairs")}.tsv`, "text/tab-separated-values", tsv(rows)];
  }

  /** A map with the marked pair over it, at the screen's resolution. */
  function paintMap(canvas, bytes, size) {
    const picture = paint(document.createElement("canvas"), bytes, size, size, sequential());
    const pixels = Math.max(120, Math.round(canvas.clientWidth * (window.devicePixelRatio || 1)));
    canvas.width = pixels;
    canvas.height = pixels;
    const context = canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.drawImage(picture, 0, 0, pixels, pixels);
    const step = pixels / size;
    const [i, j] = state.pair;
    context.fillStyle = colour("focus");
    context.globalAlpha = 0.16;
    context.fillRect(0, i * step, pixels, step);
    context.fillRect(j * step, 0, step, pixels);
    context.globalAlpha = 1;
    context.strokeStyle = colour("focus");
    context.lineWidth = Math.max(1.5, step / 5);
    for (const [row, column] of [[i, j], [j, i]]) {
      context.strokeRect(column * step - 1, row * step - 1, Math.max(4, step) + 2, Math.max(4, step) + 2);
    }
    canvas.dataset.pair = `${i},${j}`;
  }

  function drawHeads() {
    const { protein, maps } = state;
    const size = protein.sequence.length;
    const blocks = new Map();
    protein.heads.forEach((head, number) => {
      if (head.kind !== state.kind) return;
      if (!blocks.has(head.block)) blocks.set(head.block, []);
      blocks.get(head.block).push(number);
    });
    heads.replaceChildren(...[...blocks].map(([block, numbers]) => html("div", { class: "row" },
      html("span", {}, `block ${block}`),
      numbers.map((number) => {
        const head = protein.heads[number];
        const canvas = paint(html("canvas", { "aria-hidden": "true" }), maps.heads[number], size, size, sequential());
        const score = head.precision !== null ? `${Math.round(head.precision * 100)} %` : head.agreement !== null ? `r ${signed(head.agreement)}` : "";
        return html("button", { type: "button", class: "thumb", "aria-pressed": number === state.head ? "true" : "false", "data-head": number,
          title: `${head.site}, ${headName(head)}${head.precision !== null ? `: ${score} of its L best pairs touch` : head.agreement !== null ? `: ${score} with the predicted contacts` : ""}`,
          on: { click: () => { state.head = number; draw(); heads.querySelector(`[data-head="${number}"]`).focus(); } } },
        canvas, score || headName(head));
      }))));
  }

  /** What the marked residue attends to, as a line over residues. */
  function drawProfile() {
    const { protein, maps } = state;
    const head = protein.heads[state.head];
    if (!head) { profile.replaceChildren(); return; }
    const size = protein.sequence.length;
    const [i, j] = state.pair;
    const width = Math.max(260, profile.clientWidth);
    const height = 92;
    const row = Array.from({ length: size }, (_, key) => (maps.heads[state.head][i * size + key] / 255) ** 2 * head.largest);
    const most = Math.max(1e-9, ...row);
    const step = (width - 12) / size;
    const bars = row.map((value, key) => svg("rect", { x: 6 + key * step, y: 70 - (value / most) * 60, width: Math.max(0.6, step - 0.6), height: (value / most) * 60, class: key === j ? "f1" : "f0" },
      svg("title", {}, `${protein.sequence[key]}${protein.columns[key]}: ${weight(value)}`)));
    profile.replaceChildren(
      html("h3", {}, `What residue ${protein.sequence[i]}${protein.columns[i]} attends to in this head`),
      svg("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", height, role: "img", "aria-label": `Row ${i + 1} of the attention map` },
        bars, svg("path", { d: `M6 70H${width - 6}`, class: "axis" }),
        svg("text", { x: 6, y: 86, class: "tick" }, `column ${protein.columns[0]}`),
        svg("text", { x: width - 6, y: 86, "text-anchor": "end", class: "tick" }, `column ${protein.columns[size - 1]}; largest ${weight(most)}`)));
    profile.dataset.query = i;
  }

  function drawRows(fresh) {
    const { protein } = state;
    const size = protein.sequence.length;
    const ratio = window.devicePixelRatio || 1;
    const tints = new Map(Object.entries(isDark() ? TINTS.dark : TINTS.light).flatMap(([letters, tint]) => [...letters].map((letter) => [letter, tint])));
    const top = 16;
    const height = top + protein.rows.length * CELL.height;
    const nameWidth = host.clientWidth < 560 ? 84 : 150;
    const prepare = (canvas, width) => {
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      context.textBaseline = "middle";
      return context;
    };
    const context = prepare(rowCanvas, size * CELL.width);
    const marked = new Set(state.pair);
    context.font = '11px ui-monospace, "DejaVu Sans Mono", "Liberation Mono", monospace';
    context.textAlign = "center";
    protein.rows.forEach((text, row) => {
      for (let column = 0; column < size; column += 1) {
        const letter = text[column];
        const [x, y] = [column * CELL.width, top + row * CELL.height];
        const tint = tints.get(letter);
        if (tint) { context.fillStyle = tint; context.fillRect(x, y, CELL.width, CELL.height); }
        context.fillStyle = colourOf(letter === "-" ? "muted" : "text");
        context.fillText(letter, x + CELL.width / 2, y + CELL.height / 2 + 0.5);
      }
    });
    context.font = '10px system-ui, "Liberation Sans", sans-serif';
    for (let column = 0; column < size; column += 1) {
      const number = protein.columns[column];
      context.fillStyle = colourOf(marked.has(column) ? "focus" : "muted");
      if (marked.has(column) || number % 10 === 0) context.fillText(number, column * CELL.width + CELL.width / 2, 8);
    }
    context.strokeStyle = colourOf("focus");
    context.lineWidth = 2;
    for (const column of marked) context.strokeRect(column * CELL.width + 0.5, top - 1, CELL.width - 1, height - top);
    rowCanvas.dataset.columns = [...marked].sort((a, b) => a - b).join(",");
    if (fresh) {
      const names = prepare(nameCanvas, nameWidth);
      names.font = '11px system-ui, "Liberation Sans", sans-serif';
      names.fillStyle = colourOf("text");
      const room = Math.floor(nameWidth / 6.4);
      protein.row_names.forEach((name, row) => {
        names.fillText(name.length > room ? `${name.slice(0, room - 1)}…` : name, 4, top + row * CELL.height + CELL.height / 2);
      });
      alignmentTitle.textContent = protein.num_rows === null ? "The target (the alignment was not given)"
        : `Alignment: ${protein.rows.length.toLocaleString("en")} of ${protein.num_rows.toLocaleString("en")} rows, those the model saw first`;
    }
    // The first of the marked columns that is out of sight comes into it.
    const seen = scroller.clientWidth - nameWidth;
    const [i, j] = [...state.pair].sort((a, b) => a - b);
    const left = scroller.scrollLeft;
    const fits = (j - i + 4) * CELL.width < seen;
    if (i * CELL.width < left || (j + 1) * CELL.width > left + seen) {
      scroller.scrollLeft = Math.max(0, (fits ? (i + j) / 2 : j) * CELL.width - seen / 2);
    }
  }

  const colours = new Map();
  function colourOf(name) {
    const key = `${name}${isDark()}`;
    if (!colours.has(key)) colours.set(key, colour(name));
    return colours.get(key);
  }

  function say() {
    const { protein, maps } = state;
    const size = protein.sequence.length;
    const [i, j] = state.pair;
    const place = i * size + j;
    const named = (column) => `${protein.sequence[column]}${protein.columns[column]}`;
    const words = [`${named(i)} and ${named(j)}`];
    if (maps.contact) words.push(`contact probability ${(maps.contact[place] / 255).toFixed(2)}`);
    if (maps.distance) words.push(`expected distance ${maps.distance[place] === 255 ? "over 25" : (maps.distance[place] / 10).toFixed(1)} Å`);
    if (maps.truth) words.push(["not in the structure", "apart in the structure", "in contact in the structure"][maps.truth[place]]);
    const head = protein.heads[state.head];
    if (head) {
      const of = (from, to) => weight((maps.heads[state.head][from * size + to] / 255) ** 2 * head.largest);
      words.push(`attention of this head ${of(i, j)}, the other way round ${of(j, i)}`);
    }
    if (state.pinned) words.push("held; click to let go");
    readout.textContent = words.join("; ");
  }

  host.append(
    html("div", { class: "controls" },
      proteins.length > 1 ? html("label", {}, "Protein", choice) : null,
      html("label", {}, "Attention", kinds)),
    html("div", { class: "panel" }, readout,
      html("div", { class: "maps" },
        html("div", { class: "map" }, contactTitle, html("div", { class: "square" }, contactCanvas, contactTicks), contactLegend,
          html("div", { class: "group" }, saveButton("SVG", () => saveMap(contactCanvas, contactTicks, "contacts")), saveButton("TSV", savePairs))),
        html("div", { class: "map" }, attentionTitle, html("div", { class: "square" }, attentionCanvas, attentionTicks), attentionLegend,
          html("div", { class: "group" }, saveButton("SVG", () => saveMap(attentionCanvas, attentionTicks, "attention")))),
        html("div", { class: "map" }, html("h3", {}, "Heads"), html("p", { class: "hint" },
          "Blocks and heads are counted from 0, as in the file. Below each: of its L best pairs, how many touch; without a structure its correlation with the predicted contacts. Click one."), heads)),
      profile, alignmentTitle, scroller));
  redrawn(host, draw);
  choose(0).catch((problem) => { report(problem, host); throw problem; });
}

const alignmentPlace = document.getElementById("alignment-browser");
if (alignmentPlace && DATA.alignments.length) alignmentBrowser(alignmentPlace);
