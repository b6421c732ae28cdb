// How alike treatments are: a heatmap in the order of a tree, to point at.

function similarityMap(host) {
  const { names, matrices } = DATA.similarity;
  const size = names.length;
  const labelled = size <= 45;
  const canvas = html("canvas", { id: "similarity-map", tabindex: 0, role: "img",
    "aria-label": `Correlation of every two of ${size} treatments; arrow keys move, Enter compares them in the browser of promoters` });
  const words = html("output", { "aria-live": "polite", id: "similarity-words" });
  const about = html("p", { class: "note" });
  const legend = html("div", {});
  let cell = [0, 1];
  let shown = null;
  let frame = null;

  const choice = html("select", { id: "similarity-choice", on: { change: () => show(Number(choice.value)) } },
    matrices.map((matrix, number) => html("option", { value: number }, matrix.title)));

  async function show(number) {
    const matrix = matrices[number];
    const bytes = await inflate(matrix.values);
    shown = { matrix, bytes };
    about.textContent = matrix.about;
    draw();
  }

  function draw() {
    if (!shown) return;
    const { matrix, bytes } = shown;
    const most = Math.min(host.clientWidth - 30, labelled ? 760 : 640);
    const font = `${most < 500 ? 9 : 11}px system-ui, "Liberation Sans", sans-serif`;
    const context = canvas.getContext("2d");
    context.font = font;
    const short = (name) => (name.length > 22 ? `${name.slice(0, 21)}…` : name);
    const longest = Math.max(...names.map((name) => context.measureText(short(name)).width));
    const margin = labelled ? Math.min(most * 0.4, 12 + longest) : 0;
    const side = Math.min(most - margin - 2, size * 64);
    const width = side + margin + 2;
    const ratio = window.devicePixelRatio || 1;
    const height = margin + side + 2;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    context.scale(ratio, ratio);
    context.imageSmoothingEnabled = false;
    const ordered = new Uint8Array(size * size);
    matrix.order.forEach((from, row) => matrix.order.forEach((to, column) => {
      ordered[row * size + column] = bytes[from * size + to];
    }));
    // Steps run to 254 = r of 1.
    const picture = paint(document.createElement("canvas"), ordered.map((step) => Math.min(255, Math.round((step / 254) * 255))), size, size, diverging());
    context.drawImage(picture, margin, margin, side, side);
    if (labelled) {
      context.font = font;
      context.fillStyle = colour("text");
      matrix.order.forEach((number, place) => {
        const text = short(names[number]);
        const middle = margin + ((place + 0.5) * side) / size;
        context.textAlign = "right";
        context.textBaseline = "middle";
        context.fillText(text, margin - 5, middle);
        context.save();
        context.translate(middle, margin - 5);
        context.rotate(-Math.PI / 2);
        context.textAlign = "left";
        context.fillText(text, 0, 0);
        context.restore();
      });
    }
    frame = { margin, side };
    const [row, column] = cell;
    context.strokeStyle = colour("focus");
    context.lineWidth = 2;
    const step = side / size;
    context.strokeRect(margin + column * step, margin + row * step, Math.max(3, step), Math.max(3, step));
    legend.replaceChildren(rampLegend(diverging(), "r = −1", "1"));
    const [one, other] = [matrix.order[row], matrix.order[column]];
    words.textContent = `${names[one]} and ${names[other]}: r = ${signed(bytes[one * size + other] / 127 - 1)}`;
    canvas.dataset.pair = `${one},${other}`;
  }

  canvas.addEventListener("pointermove", (event) => {
    if (!frame) return;
    const box = canvas.getBoundingClientRect();
    const place = (offset) => Math.floor(((offset - frame.margin) / frame.side) * size);
    const [row, column] = [place(event.clientY - box.top), place(event.clientX - box.left)];
    if (row >= 0 && column >= 0 && row < size && column < size && (row !== cell[0] || column !== cell[1])) {
      cell = [row, column];
      draw();
    }
  });
  function compare() {
    if (promoterView && shown) {
      promoterView.compare(shown.matrix.order[cell[0]], shown.matrix.order[cell[1]]);
      document.getElementById("promoters").scrollIntoView();
    }
  }
  canvas.addEventListener("click", compare);
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key in moves) {
      cell = cell.map((place, axis) => Math.max(0, Math.min(size - 1, place + moves[event.key][axis])));
      draw();
    } else if (event.key === "Enter") compare();
    else return;
    event.preventDefault();
  });

  host.append(html("div", { class: "controls" }, html("label", {}, "Compare", choice)),
    html("div", { class: "panel" }, about, legend, canvas, words,
      html("p", { class: "hint" }, "Treatments stand in the order of a tree (average linkage of 1 − r). Click a pair to see both in the browser of promoters.")));
  redrawn(host, draw);
  show(0);
}

const similarityPlace = document.getElementById("similarity");
if (similarityPlace && DATA.similarity) similarityMap(similarityPlace);
