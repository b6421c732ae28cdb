// The browser of promoters: search, treatments, heads, zoom, pointing.

const MAX_OPTIONS = 40;

function promoterBrowser(host) {
  const promoters = DATA.promoters;
  const names = promoters.treatments;
  const everywhere = [0, promoters.length];
  const genes = [...promoters.genes, promoters.mean];
  const state = { gene: genes[0], maps: null, site: 0, head: -1, treatments: [], view: [...everywhere], sameScale: true,
    attribution: Boolean(promoters.attribution), chosenByHand: false, cursor: null, compared: "none", meanMaps: null };
  let layout = null;

  const tracks = html("div", { class: "tracks", tabindex: 0, role: "group", id: "tracks",
    "aria-label": "Maps along the promoter. Arrow keys move the cursor, with Shift the view; plus and minus zoom; 0 shows all." });
  const readout = html("output", { id: "readout", "aria-live": "polite" });
  const geneLine = html("p", { class: "gene-line", id: "gene-line" });
  const overview = promoters.treatments.length > 8 ? new Overview(names, toggleTreatment) : null;

  // ---- choosing a promoter ----
  const search = new GeneSearch(genes, promoters.lines, choose);
  const steps = html("div", { class: "group" },
    html("button", { type: "button", "aria-label": "Previous promoter", on: { click: () => step(-1) } }, "‹"),
    html("button", { type: "button", "aria-label": "Next promoter", on: { click: () => step(1) } }, "›"));

  function step(by) {
    const place = Math.max(0, genes.indexOf(state.gene));
    choose(genes[(place + by + genes.length) % genes.length]);
  }

  async function choose(gene) {
    if (!gene.maps) {
      sayAbsent(gene);
      return;
    }
    let maps;
    try {
      if (!state.meanMaps) state.meanMaps = new Maps(await inflate(promoters.mean.maps), promoters, false);
      maps = new Maps(await inflate(gene.maps), promoters, Boolean(gene.attributed));
    } catch (problem) {
      report(problem, tracks);
      return;
    }
    state.gene = gene;
    state.maps = maps;
    if (!state.chosenByHand) {
      state.treatments = strongest(gene);
      picker.show(state.treatments);
    }
    search.show(gene);
    host.dataset.gene = gene.id;
    draw();
  }

  function sayAbsent(gene) {
    geneLine.replaceChildren(
      html("strong", {}, gene.id), gene.name || "",
      html("span", { class: "badge" }, "not in this page in full"),
      html("br"),
      `Most specific to ${names[gene.treatment] || "no treatment"}: predicted ${signed(gene.predicted)}; looked at most `
      + `around ${signed(gene.peak - promoters.zero, 0)}. To have its maps here, make the report with --genes ${gene.id}.`);
    host.dataset.gene = gene.id;
    tracks.replaceChildren();
    layout = null;
    readout.textContent = "";
  }

  /** The treatments a promoter responds to most, by prediction; a handful. */
  function strongest(gene) {
    const few = names.map((_, number) => number);
    if (names.length <= 8) return few;
    const values = gene.predicted || [];
    const mean = values.reduce((sum, value) => sum + (value || 0), 0) / Math.max(1, values.length);
    return few.sort((a, b) => Math.abs((values[b] || 0) - mean) - Math.abs((values[a] || 0) - mean) || a - b).slice(0, 5)
      .sort((a, b) => a - b);
  }

  // ---- choosing treatments, heads, scales ----
  const picker = new TreatmentPicker(names, (chosen) => {
    state.treatments = chosen;
    state.chosenByHand = true;
    draw();
  }, () => {
    state.chosenByHand = false;
    state.treatments = strongest(state.gene);
    picker.show(state.treatments);
    draw();
  });

  function toggleTreatment(number) {
    const chosen = new Set(state.treatments);
    if (chosen.has(number)) chosen.delete(number);
    else chosen.add(number);
    state.treatments = [...chosen].sort((a, b) => a - b);
    state.chosenByHand = true;
    picker.show(state.treatments);
    draw();
  }

  const heads = html("select", { id: "head", on: { change: () => { state.head = Number(heads.value); draw(); } } });
  function fillHeads() {
    const titles = promoters.sites[state.site].heads;
    const several = titles.length > 1;
    heads.replaceChildren(
      several ? html("option", { value: -1 }, "mean of heads") : null,
      ...titles.map((title, number) => html("option", { value: number }, title)));
    state.head = several ? -1 : 0;
  }
  fillHeads();
  const sites = html("select", { id: "site", on: { change: () => { state.site = Number(sites.value); fillHeads(); draw(); } } },
    promoters.sites.map((site, number) => html("option", { value: number }, site.name)));
  const compared = html("select", { id: "compared", on: { change: () => { state.compared = compared.value; draw(); } } },
    html("option", { value: "none" }, "as they are"),
    html("option", { value: "promoters" }, "less the mean of all promoters"),
    promoters.sites.some((site) => site.treatments.length > 1) ? html("option", { value: "treatments" }, "less the mean of all treatments") : null);
  const scale = html("input", { type: "checkbox", id: "same-scale", checked: true,
    on: { change: () => { state.sameScale = scale.checked; draw(); } } });
  const attribution = html("input", { type: "checkbox", id: "attribution", checked: true,
    on: { change: () => { state.attribution = attribution.checked; draw(); } } });

  // ---- zoom ----
  function look(from, to) {
    const span = Math.min(promoters.length, Math.max(12, to - from));
    const first = Math.min(promoters.length - span, Math.max(0, from));
    state.view = [first, first + span];
    draw();
  }
  function zoom(factor, around) {
    const [from, to] = state.view;
    const centre = around === undefined ? (state.cursor === null ? (from + to) / 2 : state.cursor) : around;
    const span = Math.min(promoters.length, Math.max(12, (to - from) * factor));
    const part = (centre - from) / (to - from);
    look(centre - part * span, centre - part * span + span);
  }
  function toPeak() {
    const bins = layout && layout.tracks.length ? layout.tracks[0].row : [];
    const sizes = bins.map(Math.abs);
    const best = sizes.indexOf(Math.max(...sizes));
    const middle = (layout.edges[best] + layout.edges[best + 1]) / 2;
    const span = Math.min(60, promoters.length);
    state.cursor = middle;
    look(middle - span / 2, middle + span / 2);
  }
  const zooming = html("div", { class: "group" },
    html("button", { type: "button", id: "zoom-in", "aria-label": "Zoom in", on: { click: () => zoom(0.5) } }, "+"),
    html("button", { type: "button", id: "zoom-out", "aria-label": "Zoom out", on: { click: () => zoom(2) } }, "−"),
    html("button", { type: "button", id: "zoom-all", on: { click: () => look(...everywhere) } }, "all"),
    html("button", { type: "button", id: "zoom-peak", on: { click: toPeak } }, "to the peak"));

  tracks.addEventListener("keydown", (event) => {
    const [from, to] = state.view;
    const pace = Math.max(1, (to - from) / 20);
    const cursor = state.cursor === null ? (from + to) / 2 : state.cursor;
    const moves = { ArrowLeft: -1, ArrowRight: 1 };
    if (event.key in moves && event.shiftKey) look(from + moves[event.key] * pace * 2, to + moves[event.key] * pace * 2);
    else if (event.key in moves) {
      const place = Math.min(promoters.length - 1, Math.max(0, Math.floor(cursor) + moves[event.key] * Math.max(1, Math.round(pace / 4))));
      if (place < from || place >= to) look(place - (to - from) / 2, place + (to - from) / 2);
      point(place + 0.5);
    } else if (event.key === "+" || event.key === "=") zoom(0.5);
    else if (event.key === "-") zoom(2);
    else if (event.key === "0" || event.key === "Escape") look(...everywhere);
    else return;
    event.preventDefault();
  });
  tracks.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== tracks) return; // the page scrolls
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, positionAt(event));
  }, { passive: false });
  tracks.addEventListener("dblclick", (event) => zoom(0.4, positionAt(event)));
  let drag = null;
  tracks.addEventListener("pointerdown", (event) => {
    if (layout && event.pointerType === "mouse") drag = { x: event.clientX, view: [...state.view] };
  });
  window.addEventListener("pointerup", () => { drag = null; tracks.classList.remove("moving"); });
  tracks.addEventListener("pointermove", (event) => {
    if (!layout) return;
    if (drag && Math.abs(event.clientX - drag.x) > 3) {
      tracks.classList.add("moving");
      const moved = (drag.x - event.clientX) / layout.scale;
      look(drag.view[0] + moved, drag.view[1] + moved);
    }
    point(positionAt(event));
  });

  function positionAt(event) {
    if (!layout) return undefined;
    const box = layout.drawing.getBoundingClientRect();
    const x = (event.clientX - box.left) * (layout.drawing.viewBox.baseVal.width / box.width);
    return Math.min(state.view[1] - 1e-6, Math.max(state.view[0], state.view[0] + (x - layout.left) / layout.scale));
  }

  /** Mark a position and say what is there. */
  function point(position) {
    state.cursor = position;
    if (!layout || position === undefined) return;
    const x = (place) => layout.left + (place - state.view[0]) * layout.scale;
    const bin = layout.edges.findIndex((edge, number) => edge <= position && position < layout.edges[number + 1]);
    layout.marks.replaceChildren(svg("path", { d: `M${x(position)} 0V${layout.bottom}`, class: "cursor" }));
    const place = Math.floor(position);
    const base = state.gene.sequence ? state.gene.sequence[place] : "";
    let words = `${signed(place - promoters.zero, 0)}${base ? ` ${base}` : ""}${onChromosome(state.gene, place)}`;
    if (bin >= 0) {
      const [start, end] = [Math.max(state.view[0], layout.edges[bin]), Math.min(state.view[1], layout.edges[bin + 1])];
      layout.marks.append(svg("rect", { x: x(start), y: 0, width: Math.max(1, x(end) - x(start)), height: layout.bottom, class: "bin" }));
      const shown = layout.tracks.slice(0, 8).map(({ treatment, row, attribution: added }) =>
        `${names[treatment]} ${isWeight() ? weight(row[bin]) : signed(row[bin], 3)}${added ? ` (the base adds ${signed(added[place], 3)})` : ""}`);
      words += `. ${what()} of the bin ${signed(layout.edges[bin] - promoters.zero, 0)} to ${signed(layout.edges[bin + 1] - promoters.zero, 0)}: ${shown.join("; ")}`;
    }
    const hits = (state.gene.hits || []).filter(([, start, end]) => start <= place && place < end);
    if (hits.length) words += `. Motif hits: ${hits.map(([name, , , strand]) => `${name} (${strand})`).join(", ")}`;
    readout.textContent = words;
  }

  function onChromosome(gene, place) {
    if (!gene.window || (gene.window[3] !== "+" && gene.window[3] !== "-")) return "";
    const [chrom, start, end, strand] = gene.window;
    const base = strand === "+" ? end - promoters.length + place : start + promoters.length - 1 - place;
    return base < start || base >= end ? " (padding)" : ` (${chrom}:${(base + 1).toLocaleString("en")})`;
  }

  const isWeight = () => state.compared === "none" && !promoters.sites[state.site].signed;

  function what() {
    const name = promoters.sites[state.site].signed ? "Contribution" : "Weight";
    return state.compared === "none" ? name : `${name} less the mean of all ${state.compared}`;
  }

  // ---- drawing ----
  function draw() {
    if (!state.maps) return;
    const gene = state.gene;
    sayGene(gene);
    layout = drawTracks(tracks, gene, state.maps, state);
    host.dataset.view = state.view.map((place) => Math.round(place)).join("-");
    if (state.treatments.length > MAX_TRACKS) {
      tracks.append(html("p", { class: "hint" }, `The first ${MAX_TRACKS} of ${state.treatments.length} chosen treatments are drawn.`));
    } else if (!state.chosenByHand && state.treatments.length < names.length) {
      tracks.append(html("p", { class: "hint" }, `${state.treatments.length} of ${names.length} treatments: those whose predictions differ most from the promoter's mean.`));
    } else if (!state.treatments.length) {
      tracks.prepend(html("p", { class: "hint" }, "No treatment is chosen."));
    }
    if (state.cursor !== null && state.cursor >= state.view[0] && state.cursor < state.view[1]) point(state.cursor);
    else readout.textContent = "Point at a place to read the values there.";
    if (overview) overview.draw(state.maps, state, layout);
  }

  function sayGene(gene) {
    if (gene === promoters.mean) {
      geneLine.replaceChildren(html("strong", {}, "Mean of all promoters"), "the profile that all maps share");
      return;
    }
    const [chrom, start, end, strand] = gene.window;
    const where = strand === "." ? "" : `${chrom}:${(start + 1).toLocaleString("en")}–${end.toLocaleString("en")} (${strand})`;
    const unseen = gene.split === "test" || gene.split === "validation";
    const badge = gene.split ? [html("span", { class: unseen ? "badge unseen" : "badge" },
      unseen ? `${gene.split} gene: not trained on` : "training gene")] : [];
    geneLine.replaceChildren(html("strong", {}, gene.id), gene.name ? `${gene.name} · ` : "", where, ...badge);
  }

  /** The tracks that are drawn: a line for each treatment and bin. */
  function trackRows() {
    const column = what().toLowerCase();
    const head = state.head < 0 ? "mean of heads" : promoters.sites[state.site].heads[state.head];
    const rows = [["gene", "treatment", "head", "start", "end", column, "predicted", "measured", "attribution"]];
    const of = (values, number) => (values && values.length ? values[number] : "");
    for (const { treatment, row, attribution: values } of layout ? layout.tracks : []) {
      const added = (bin) => values.slice(layout.edges[bin], layout.edges[bin + 1]).reduce((sum, value) => sum + value, 0);
      row.forEach((value, bin) => rows.push([state.gene.id, names[treatment], head, layout.edges[bin] - promoters.length,
        layout.edges[bin + 1] - promoters.length, Number(value.toPrecision(4)), of(state.gene.predicted, treatment), of(state.gene.measured, treatment),
        values ? Number(added(bin).toPrecision(4)) : ""]));
    }
    return rows;
  }
  const saving = html("div", { class: "group" },
    saveButton("SVG", () => [`${fileName(state.gene.id, promoters.sites[state.site].quantity)}.svg`, "image/svg+xml", svgFile(layout.drawing)]),
    saveButton("TSV", () => [`${fileName(state.gene.id, promoters.sites[state.site].quantity)}.tsv`, "text/tab-separated-values", tsv(trackRows())]));

  host.append(
    html("div", { class: "controls" },
      search.node, steps, picker.node,
      html("label", {}, "Heads", heads),
      html("label", {}, "Shown", compared),
      promoters.sites.length > 1 ? html("label", {}, "Maps", sites) : null,
      html("div", { class: "label" }, "Zoom", zooming),
      html("label", { class: "check" }, scale, "same scale for all"),
      promoters.attribution ? html("label", { class: "check" }, attribution, html("span", {}, `attribution (${promoters.attribution.method})`)) : null,
      promoters.attribution || promoters.sites[0].signed ? html("div", { class: "label" },
        html("span", { class: "raises" }, "■ raises the response"), " ", html("span", { class: "lowers" }, "■ lowers it")) : null),
    html("div", { class: "panel" }, geneLine, tracks, saving, readout,
      html("p", { class: "hint" }, "Drag to move, double-click or Ctrl + wheel to zoom; letters appear when there is room. Keys: ← → cursor, Shift + ← → move, + − zoom, 0 all."),
      overview ? overview.node : null));
  redrawn(tracks, draw);
  choose(genes[0]);
  return {
    compare(first, second) {
      state.treatments = [...new Set([first, second])].sort((a, b) => a - b);
      state.chosenByHand = true;
      picker.show(state.treatments);
      draw();
    },
  };
}

/** A box to find promoters by id or name: a combobox with a list. */
class GeneSearch {
  constructor(genes, lines, choose) {
    const here = new Set(genes.map((gene) => gene.id));
    this.all = [...genes, ...lines.filter(([id]) => !here.has(id)).map(([id, name, treatment, predicted, peak]) => ({ id, name, treatment, predicted, peak }))];
    this.texts = this.all.map((gene) => `${gene.id} ${gene.name || ""}`.toLowerCase());
    this.choose = choose;
    this.active = 0;
    this.found = [];
    this.list = html("ul", { class: "options", role: "listbox", id: "gene-options", hidden: true, "aria-label": "Promoters found" });
    this.input = html("input", { type: "search", id: "gene-search", role: "combobox", autocomplete: "off", spellcheck: "false",
      "aria-expanded": "false", "aria-controls": "gene-options", "aria-autocomplete": "list", placeholder: "gene id or name",
      on: {
        input: () => this.look(), focus: () => { this.input.select(); }, keydown: (event) => this.key(event),
        blur: () => setTimeout(() => this.close(), 150),
      } });
    this.node = html("div", { class: "search label" }, html("label", { for: "gene-search" }, `Promoter (${(this.all.length - 1).toLocaleString("en")})`), this.input, this.list);
  }

  show(gene) {
    this.input.value = gene.name ? `${gene.id} ${gene.name}` : gene.id;
    this.close();
  }

  look() {
    const wanted = this.input.value.trim().toLowerCase();
    const starts = [];
    const holds = [];
    this.texts.forEach((text, number) => {
      const place = text.indexOf(wanted);
      if (place === 0 || (place > 0 && text[place - 1] === " ")) starts.push(number);
      else if (place > 0) holds.push(number);
    });
    this.found = [...starts, ...holds].slice(0, MAX_OPTIONS);
    this.active = 0;
    this.list.replaceChildren(...(this.found.length ? this.found.map((number, place) => this.option(number, place))
      : [html("li", { role: "presentation" }, "No promoter is called so.")]));
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.mark();
  }

  option(number, place) {
    const gene = this.all[number];
    return html("li", { role: "option", id: `gene-option-${place}`, on: { pointerdown: (event) => { event.preventDefault(); this.take(place); } } },
      html("span", {}, gene.id, gene.name ? ` ${gene.name}` : ""), html("small", {}, gene.maps ? gene.split || "" : "one line"));
  }

  mark() {
    [...this.list.children].forEach((node, place) => node.setAttribute("aria-selected", place === this.active ? "true" : "false"));
    const node = this.list.children[this.active];
    if (node && this.found.length) {
      this.input.setAttribute("aria-activedescendant", node.id);
      node.scrollIntoView({ block: "nearest" });
    }
  }

  key(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (this.list.hidden) this.look();
      const step = event.key === "ArrowDown" ? 1 : -1;
      this.active = Math.max(0, Math.min(this.found.length - 1, this.active + step));
      this.mark();
    } else if (event.key === "Enter") {
      if (this.list.hidden) this.look();
      this.take(this.active);
    } else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
  }

  take(place) {
    if (this.found[place] !== undefined) this.choose(this.all[this.found[place]]);
    this.close();
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }
}

/** A list of treatments to tick, with a filter. */
class TreatmentPicker {
  constructor(names, change, reset) {
    this.names = names;
    this.boxes = names.map((name, number) => html("input", { type: "checkbox", value: number, "data-treatment": name,
      on: { change: () => { change(this.chosen()); this.say(); } } }));
    this.rows = names.map((name, number) => html("label", {}, this.boxes[number], html("span", {}, name)));
    this.summary = html("summary", { id: "treatment-summary" });
    const filter = html("input", { type: "search", placeholder: "filter", "aria-label": "Filter treatments", id: "treatment-filter",
      on: { input: () => {
        const wanted = filter.value.trim().toLowerCase();
        this.rows.forEach((row, number) => { row.hidden = !names[number].toLowerCase().includes(wanted); row.classList.toggle("gone", row.hidden); });
      } } });
    const buttons = html("div", { class: "group" },
      html("button", { type: "button", on: { click: reset } }, "strongest"),
      html("button", { type: "button", on: { click: () => { this.show([]); change([]); } } }, "none"),
      names.length <= MAX_TRACKS ? html("button", { type: "button", on: { click: () => { this.show(names.map((_, n) => n)); change(this.chosen()); } } }, "all") : null);
    this.details = html("details", { class: "picker", id: "treatment-picker" }, this.summary,
      html("div", {}, names.length > 8 ? filter : null, buttons, html("div", { class: "list" }, this.rows)));
    this.node = html("div", { class: "label" }, "Treatments", this.details);
    document.addEventListener("pointerdown", (event) => { if (!this.details.contains(event.target)) this.details.open = false; });
    this.details.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { this.details.open = false; this.summary.focus(); }
    });
  }

  chosen() {
    return this.boxes.flatMap((box, number) => (box.checked ? [number] : []));
  }

  show(chosen) {
    const wanted = new Set(chosen);
    this.boxes.forEach((box, number) => { box.checked = wanted.has(number); });
    this.say();
  }

  say() {
    this.summary.textContent = `${this.chosen().length} of ${this.names.length}`;
  }
}

/** All treatments of one promoter at once: a row each, in the order of the similarity tree. Click to show or hide one. */
class Overview {
  constructor(names, toggle) {
    this.names = names;
    const similar = DATA.similarity && DATA.similarity.names.length === names.length;
    this.order = similar ? DATA.similarity.matrices[0].order : names.map((_, number) => number);
    this.canvas = html("canvas", { id: "overview", tabindex: 0, role: "img", "aria-label": "All treatments along this promoter, a row each; up and down choose a row, Enter shows it" });
    this.words = html("output", { "aria-live": "polite" });
    this.row = 0;
    this.canvas.addEventListener("pointermove", (event) => this.point(this.rowAt(event)));
    this.canvas.addEventListener("click", (event) => toggle(this.order[this.rowAt(event)]));
    this.canvas.addEventListener("keydown", (event) => {
      if (event.key === "ArrowUp" || event.key === "ArrowDown") this.point(Math.max(0, Math.min(names.length - 1, this.row + (event.key === "ArrowDown" ? 1 : -1))));
      else if (event.key === "Enter" || event.key === " ") toggle(this.order[this.row]);
      else return;
      event.preventDefault();
    });
    this.legend = html("div", {});
    this.node = html("div", {}, html("h3", {}, `All ${names.length.toLocaleString("en")} treatments of this promoter`), this.legend, this.canvas, this.words);
  }

  rowAt(event) {
    const box = this.canvas.getBoundingClientRect();
    return Math.max(0, Math.min(this.names.length - 1, Math.floor(((event.clientY - box.top) / box.height) * this.names.length)));
  }

  point(row) {
    this.row = row;
    this.words.textContent = `${this.names[this.order[row]]} (row ${row + 1}); click or Enter shows or hides its track`;
  }

  draw(maps, state, layout) {
    const rows = shownRows(maps, state, this.order);
    const bins = rows[0].length;
    const most = Math.max(1e-9, ...rows.map(largestOf));
    const isSigned = state.compared !== "none" || DATA.promoters.sites[state.site].signed;
    const colours = isSigned ? diverging() : sequential();
    const bytes = new Uint8Array(rows.length * bins);
    rows.forEach((row, number) => row.forEach((value, bin) => {
      bytes[number * bins + bin] = Math.round(isSigned ? (value / most + 1) * 127.5 : (value / most) * 255);
    }));
    paint(this.canvas, bytes, bins, rows.length, colours);
    // Under the tracks, so that a bin stands below itself; all bins, whatever the tracks have zoomed to.
    const scale = layout.drawing.getBoundingClientRect().width / layout.drawing.viewBox.baseVal.width;
    this.canvas.style.marginLeft = `${layout.left * scale}px`;
    this.canvas.style.width = `${(layout.right - layout.left) * scale}px`;
    this.canvas.style.height = `${Math.min(420, Math.max(120, rows.length * 12))}px`;
    this.canvas.style.imageRendering = "pixelated";
    this.legend.replaceChildren(rampLegend(colours, isSigned ? `−${weight(most)}` : "0", weight(most)));
  }
}

const promoterPlace = document.getElementById("promoter-browser");
let promoterView = null;
if (promoterPlace && DATA.promoters) {
  try {
    promoterView = promoterBrowser(promoterPlace);
  } catch (problem) {
    report(problem, promoterPlace);
    throw problem;
  }
}
