// Maps along one promoter, drawn as SVG: genes, motif hits, a track for each treatment, letters when there is room.

const LETTER_WIDTH = 7.5; // pixels a base must have for its letter to be drawn
const MAX_TRACKS = 24;

/** One promoter's maps: values(site, treatment, head, bin), attribution(treatment, position). */
class Maps {
  constructor(bytes, promoters, attributed) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const groups = promoters.sites.map((site) => ({
      rows: site.treatments.length * site.heads.length,
      size: site.edges.length - 1,
    }));
    if (attributed) groups.push({ rows: promoters.attribution.treatments.length, size: promoters.length });
    let place = 0;
    for (const group of groups) {
      group.largest = Float32Array.from({ length: group.rows }, (_, row) => view.getFloat32(place + 4 * row, true));
      place += 4 * group.rows;
    }
    for (const group of groups) {
      group.steps = new Int8Array(bytes.buffer, bytes.byteOffset + place, group.rows * group.size);
      place += group.rows * group.size;
    }
    this.promoters = promoters;
    this.groups = groups;
    this.attributed = attributed ? groups[groups.length - 1] : null;
  }

  row(group, row) {
    const scale = group.largest[row] / this.promoters.steps;
    return Float32Array.from(group.steps.subarray(row * group.size, (row + 1) * group.size), (step) => step * scale);
  }

  /** Values of one head, or their mean over heads with head = -1; a site without treatments answers for all alike. */
  values(siteNumber, treatment, head) {
    const site = this.promoters.sites[siteNumber];
    const group = this.groups[siteNumber];
    const first = (site.treatments.length > 1 ? treatment : 0) * site.heads.length;
    if (head >= 0) return this.row(group, first + head);
    const mean = new Float32Array(group.size);
    for (let each = 0; each < site.heads.length; each += 1) {
      const row = this.row(group, first + each);
      for (let bin = 0; bin < mean.length; bin += 1) mean[bin] += row[bin] / site.heads.length;
    }
    return mean;
  }

  /** Attribution by position, or null. */
  attribution(name) {
    const row = this.attributed ? this.promoters.attribution.treatments.indexOf(name) : -1;
    return row < 0 ? null : this.row(this.attributed, row);
  }
}

/** Draw everything into `host`; returns {scale, tracks} for pointing. */
function drawTracks(host, gene, maps, state) {
  const promoters = DATA.promoters;
  const width = Math.max(300, host.clientWidth);
  const narrow = width < 620;
  const left = narrow ? 18 : 190;
  const right = 18;
  const [from, to] = state.view;
  const scale = (width - left - right) / (to - from);
  const x = (position) => left + (position - from) * scale;
  const lettersFit = Boolean(gene.sequence) && scale >= LETTER_WIDTH;
  const { edges, quantity, signed: adds } = promoters.sites[state.site];
  const layers = [];
  let y = 4;

  if (gene.neighbours && gene.neighbours.length) {
    layers.push(...drawGenes(gene.neighbours, x, from, to, y, left, narrow));
    y += 24;
  }
  if (gene.hits && gene.hits.length) {
    const drawn = drawHits(gene.hits, x, from, to, y, left, narrow);
    layers.push(...drawn.nodes);
    y += drawn.height;
  }
  const shown = state.treatments.slice(0, MAX_TRACKS);
  const rows = shownRows(maps, state, shown);
  const isSigned = adds || state.compared !== "none";
  const attribution = shown.map((treatment) =>
    state.attribution ? maps.attribution(promoters.treatments[treatment]) : null,
  );
  const common = Math.max(1e-9, ...rows.map(largestOf));
  const largestAttribution = Math.max(1e-12, ...attribution.map((row) => (row ? largestIn(row, from, to) : 0)));
  const bases = adds ? rows.map((row) => perBase(row, edges)) : [];
  const commonBase = Math.max(1e-12, ...bases.map(largestOf));
  const height = shown.length > 10 ? 38 : 56;
  const tracks = [];
  shown.forEach((treatment, number) => {
    const name = promoters.treatments[treatment];
    const style = number % 7;
    if (narrow) {
      layers.push(trackTitle(name, gene, treatment, 2, y + 12, true));
      y += 17;
    } else {
      layers.push(trackTitle(name, gene, treatment, 2, y + 15, false));
    }
    const top = y;
    const base = y + height;
    const largest = largestOf(rows[number]);
    const most = state.sameScale ? common : Math.max(1e-9, largest);
    const zero = isSigned ? (top + base) / 2 : base;
    const reach = isSigned ? (height - 4) / 2 : height - 4;
    const outline = stepPath(rows[number], edges, from, to, x, (value) => zero - (value / most) * reach);
    const drawn = adds
      ? [drawSigned(bases[number], gene, x, scale, from, to, top, height, state.sameScale ? commonBase : Math.max(1e-12, largestOf(bases[number])), name, "contributions")]
      : [svg("path", { d: `${outline.path}V${zero}H${outline.start}Z`, class: `area f${style}` }),
        svg("path", { d: outline.path, class: `edge s${style}` })];
    layers.push(
      svg("g", { class: "track", "data-treatment": name },
        svg("path", { d: `M${left} ${zero}H${width - right}`, class: "track-line" }),
        ...drawn,
        svg("text", { x: width - right, y: top + 10, "text-anchor": "end", class: "tick most" }, `${isSigned ? "± " : "max "}${weight(largest)}`),
      ),
    );
    tracks.push({ treatment, top, base, row: rows[number], attribution: attribution[number] });
    y = base + 3;
    if (attribution[number]) {
      layers.push(drawSigned(attribution[number], gene, x, scale, from, to, y, 42, largestAttribution, name, "attribution"));
      y += 45;
    }
    y += 7;
  });
  if (lettersFit) {
    layers.push(drawLetters(gene.sequence, x, scale, from, to, y + 12));
    y += 20;
  }
  layers.push(...drawAxis(promoters, x, from, to, y, left, width - right));
  y += 36;
  const marks = svg("g", { class: "marks" });
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${y}`, width, height: y, role: "img",
    "aria-label": `${quantity} along ${gene.id} for ${shown.length} treatments` }, layers, marks);
  host.replaceChildren(drawing);
  host.classList.toggle("zoomed", to - from < promoters.length);
  return { left, right: width - right, scale, bottom: y - 34, tracks, marks, drawing, edges };
}

/** Values of the treatments, or what they are above and below what they are compared with. */
function shownRows(maps, state, treatments) {
  const rows = treatments.map((treatment) => maps.values(state.site, treatment, state.head));
  if (state.compared === "promoters" && state.meanMaps) {
    return rows.map((row, number) => less(row, state.meanMaps.values(state.site, treatments[number], state.head)));
  }
  if (state.compared === "treatments") {
    const all = DATA.promoters.sites[state.site].treatments;
    const mean = new Float32Array(rows.length ? rows[0].length : 0);
    all.forEach((_, treatment) => maps.values(state.site, treatment, state.head).forEach((value, bin) => { mean[bin] += value / all.length; }));
    return rows.map((row) => less(row, mean));
  }
  return rows;
}

function less(row, other) {
  return row.map((value, bin) => value - other[bin]);
}

function largestOf(row) {
  return row.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
}

function largestIn(row, from, to) {
  let largest = 0;
  for (let place = Math.floor(from); place < Math.ceil(to); place += 1) largest = Math.max(largest, Math.abs(row[place] || 0));
  return largest;
}

function trackTitle(name, gene, treatment, x, y, inline) {
  const short = name.length > 26 ? `${name.slice(0, 25)}…` : name;
  const responses = [];
  if (gene.predicted && gene.predicted[treatment] !== undefined && gene.predicted[treatment] !== null) {
    responses.push(`predicted ${signed(gene.predicted[treatment])}`);
  }
  if (gene.measured && gene.measured.length && gene.measured[treatment] !== null) {
    responses.push(`measured ${signed(gene.measured[treatment])}`);
  }
  const words = responses.join(", ");
  const title = svg("title", {}, `${name}${words ? `: ${words}` : ""}`);
  if (inline) {
    return svg("text", { x, y }, title, svg("tspan", { "font-weight": 600 }, short), svg("tspan", { class: "tick", dx: 8 }, words));
  }
  return svg("g", {}, title,
    svg("text", { x, y, class: "strong" }, short),
    ...responses.map((text, line) => svg("text", { x, y: y + 15 * (line + 1), class: "tick" }, text)));
}

/** Outline of bins as steps. */
function stepPath(row, edges, from, to, x, y) {
  let path = "";
  let start = null;
  for (let bin = 0; bin < row.length; bin += 1) {
    if (edges[bin + 1] <= from || edges[bin] >= to) continue;
    const one = x(Math.max(from, edges[bin])).toFixed(1);
    const other = x(Math.min(to, edges[bin + 1])).toFixed(1);
    const level = y(row[bin]).toFixed(1);
    path += path ? `V${level}H${other}` : `M${one} ${level}H${other}`;
    if (start === null) start = one;
  }
  return { path, start: start === null ? x(from) : start };
}

function drawGenes(genes, x, from, to, y, left, narrow) {
  const nodes = narrow ? [] : [svg("text", { x: 2, y: y + 12, class: "tick" }, "genes")];
  for (const [start, end, label, same, own] of genes) {
    if (end <= from || start >= to) continue;
    const [one, other] = [x(Math.max(from, start)), x(Math.min(to, end))];
    const tip = Math.min(7, other - one);
    const d = same
      ? `M${one} ${y + 3}H${other - tip}L${other} ${y + 9}L${other - tip} ${y + 15}H${one}Z`
      : `M${other} ${y + 3}H${one + tip}L${one} ${y + 9}L${one + tip} ${y + 15}H${other}Z`;
    nodes.push(svg("path", { d, class: own ? "gene-own" : "gene-other" },
      svg("title", {}, `${label}${own ? " (this gene)" : ""}, ${same ? "same strand" : "other strand"}`)));
    if (other - one > 8 * label.length) {
      nodes.push(svg("text", { x: (one + other) / 2, y: y + 13, "text-anchor": "middle", class: "gene-label" }, label));
    }
  }
  return nodes;
}

/** Hits of motifs in as many lanes as it takes to keep them apart. */
function drawHits(hits, x, from, to, y, left, narrow) {
  const names = [...new Set(hits.map(([name]) => name))].sort();
  const lanes = [];
  const nodes = narrow ? [] : [svg("text", { x: 2, y: y + 10, class: "tick" }, "motif hits")];
  for (const [name, start, end, strand, p] of hits) {
    if (end <= from || start >= to) continue;
    const [one, other] = [x(Math.max(from, start)), x(Math.min(to, end))];
    const label = other - one > 7 * name.length ? name : "";
    let lane = lanes.findIndex((last) => last <= one - 2);
    if (lane < 0) lane = lanes.length < 4 ? lanes.length : lanes.indexOf(Math.min(...lanes));
    lanes[lane] = Math.max(other, lanes[lane] || 0);
    const top = y + lane * 14;
    nodes.push(svg("rect", { x: one, y: top, width: Math.max(2, other - one), height: 11, rx: 2, class: `hit f${names.indexOf(name) % 7}` },
      svg("title", {}, `${name} (${strand}), ${start}–${end} of the window, p = ${p}`)));
    if (label) nodes.push(svg("text", { x: (one + other) / 2, y: top + 9.5, "text-anchor": "middle", class: "hit-label" }, label));
  }
  return { nodes, height: Math.max(1, lanes.length) * 14 + 8 };
}

/** What each base has of its bin. */
function perBase(row, edges) {
  const values = new Float32Array(edges[edges.length - 1]);
  row.forEach((value, bin) => values.fill(value / (edges[bin + 1] - edges[bin]), edges[bin], edges[bin + 1]));
  return values;
}

/** What raises a response above a line, what lowers it below: bars, or letters as high as the base adds. */
function drawSigned(row, gene, x, scale, from, to, y, height, most, name, kind) {
  const zero = y + height / 2;
  const reach = height / 2 - 1;
  const group = svg("g", { class: kind, "data-treatment": name },
    svg("path", { d: `M${x(from)} ${zero}H${x(to)}`, class: "track-line" }));
  const letters = scale >= LETTER_WIDTH && gene.sequence;
  let up = "";
  let down = "";
  for (let place = Math.max(0, Math.floor(from)); place < Math.min(row.length, Math.ceil(to)); place += 1) {
    const tall = (Math.abs(row[place]) / most) * reach;
    if (tall < 0.3) continue;
    const one = x(Math.max(from, place));
    const wide = x(Math.min(to, place + 1)) - one;
    if (letters) {
      const top = row[place] > 0 ? zero - tall : zero;
      // Drawn with a font of 10 pixels, whose capitals are 7.3 high, and stretched.
      group.append(svg("text", { class: `letter base-${gene.sequence[place]}`, "text-anchor": "middle", "font-weight": 700,
        transform: `translate(${one + wide / 2} ${top + tall}) scale(${wide / 8.5} ${tall / 7.3})` }, gene.sequence[place]));
    } else if (row[place] > 0) {
      up += `M${one} ${zero}v${-tall}h${wide}v${tall}Z`;
    } else {
      down += `M${one} ${zero}v${tall}h${wide}v${-tall}Z`;
    }
  }
  if (up) group.append(svg("path", { d: up, class: "up" }));
  if (down) group.append(svg("path", { d: down, class: "down" }));
  return group;
}

function drawLetters(sequence, x, scale, from, to, y) {
  const group = svg("g", { class: "letters" });
  const size = Math.min(14, scale * 1.25);
  for (let place = Math.max(0, Math.floor(from)); place < Math.min(sequence.length, Math.ceil(to)); place += 1) {
    const letter = svg("text", { x: x(place + 0.5), y, "text-anchor": "middle", class: `base-${sequence[place]}` }, sequence[place]);
    letter.style.fontSize = `${size}px`; // an attribute would give way to the style sheet
    group.append(letter);
  }
  return group;
}

function drawAxis(promoters, x, from, to, y, left, right) {
  const nodes = [svg("path", { d: `M${left} ${y}H${right}`, class: "axis" })];
  const span = to - from;
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
  const step = steps.find((each) => (each / span) * (right - left) > 62) || 10000;
  for (let tick = Math.ceil((from - promoters.zero) / step) * step; tick <= to - promoters.zero; tick += step) {
    const at = x(tick + promoters.zero);
    nodes.push(svg("path", { d: `M${at} ${y}v4`, class: "axis" }));
    nodes.push(svg("text", { x: at, y: y + 16, "text-anchor": "middle", class: "tick" }, signed(tick, 0)));
  }
  nodes.push(svg("text", { x: (left + right) / 2, y: y + 31, "text-anchor": "middle", class: "tick" },
    `bases from ${promoters.countedFrom}${right - left > 420 ? ", in the direction of the gene" : ""}`));
  return nodes;
}
