// Each shard as a cell, by worker or by hash key: the same for 4 and for 4,000 shards. Only the rows in sight are drawn.
"use strict";

const SIZES = [46, 34, 26, 20, 15, 12, 9, 7];
const LABEL = 190, GAP = 2, TALL = 440;

const heat = { byWorker: true, colour: "lag", cells: [], labels: [], height: 0, cursor: null, canvas: null };

function heatGroups() {
  const shown = state.shards.filter((shard) => !isOver(shard));
  if (!heat.byWorker) {
    return state.look.streams.map((stream, place) => ({
      name: state.look.streams.length > 1 ? stream.name : "",
      shards: shown.filter((shard) => shard.stream === place).sort((a, b) => (a.from || 0) - (b.from || 0)),
    })).filter((group) => group.shards.length);
  }
  const groups = new Map(state.look.workers.map((worker) => [worker.name, { name: worker.name, worker, shards: [] }]));
  const nobody = { name: "without a worker", shards: [] };
  for (const shard of shown) {
    const owner = ownerOf(shard);
    if (owner === null) nobody.shards.push(shard);
    else {
      if (!groups.has(owner)) groups.set(owner, { name: owner, shards: [] });
      groups.get(owner).shards.push(shard);
    }
  }
  const sorted = [...groups.values()].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  return nobody.shards.length ? [nobody, ...sorted] : sorted;
}

// The room that the longest name needs, up to a limit.
function labelWidth(groups) {
  const pen = heat.canvas.getContext("2d");
  pen.font = "700 12px system-ui, sans-serif";
  return groups.reduce((most, group) => Math.max(most, pen.measureText(`${group.name} ${group.shards.length}`).width + 22), 0);
}

function heatLayout(groups, width) {
  const hasLabels = groups.some((group) => group.name), longest = labelWidth(groups);
  for (const size of SIZES) {
    const row = Math.max(size, hasLabels ? 15 : 0) + GAP;
    const columns = groups.length * row > TALL ? Math.max(1, Math.min(Math.floor(width / 300), Math.ceil(groups.length * row / TALL))) : 1;
    const column = width / columns;
    const label = hasLabels ? Math.min(LABEL, column * 0.5, longest) : 0;
    const across = Math.max(1, Math.floor((column - label - 12) / (size + GAP)));
    const heights = groups.map((group) => Math.max(row, Math.ceil(group.shards.length / across) * (size + GAP)) + 4);
    const target = heights.reduce((sum, height) => sum + height, 0) / columns;
    if (target <= TALL || size === SIZES[SIZES.length - 1]) return placed(groups, heights, { size, columns, column, label, across, target });
  }
  return { cells: [], labels: [], height: 0, size: 0 };
}

function placed(groups, heights, { size, columns, column, label, across, target }) {
  const cells = [], labels = [];
  let place = 0, top = 0, height = 0;
  groups.forEach((group, index) => {
    if (top > 0 && top + heights[index] / 2 > target && place < columns - 1) { place += 1; top = 0; }
    const left = place * column;
    if (group.name) labels.push({ text: group.name, worker: group.worker, count: group.shards.length, left, top, width: label, size });
    group.shards.forEach((shard, cell) => {
      const x = left + label + (cell % across) * (size + GAP), y = top + Math.floor(cell / across) * (size + GAP);
      cells.push({ shard, left: x, top: y, right: x + size, bottom: y + size });
    });
    top += heights[index];
    height = Math.max(height, top);
  });
  return { cells, labels, height, size };
}

function arrangeHeat() {
  const frame = document.getElementById("heat-frame");
  if (!frame.clientWidth || !state.look || !state.look.at) return;
  Object.assign(heat, heatLayout(heatGroups(), frame.clientWidth - 4));
  document.getElementById("heat-space").style.height = `${heat.height}px`;
  heat.canvas.style.height = `${Math.min(heat.height, 460)}px`;
  drawHeat();
}

function drawHeat() {
  const frame = document.getElementById("heat-frame");
  const width = frame.clientWidth, height = Math.min(heat.height, 460);
  if (!width || !height) return;
  const pen = fitted(heat.canvas, width, height);
  const scrolled = frame.scrollTop;
  pen.translate(0, -scrolled);
  const inSight = heat.cells.filter((cell) => cell.bottom >= scrolled && cell.top <= scrolled + height);
  const striped = stripes(pen, css("--panel")), unknown = css("--quiet"), bad = css("--bad");
  for (const cell of inSight) drawCell(pen, cell, striped, unknown, bad);
  for (const label of heat.labels) {
    if (label.top + 16 >= scrolled && label.top <= scrolled + height) drawLabel(pen, label);
  }
  drawCursor(pen, heat, inSight);
}

function drawCell(pen, cell, striped, unknown, bad) {
  const { shard, left, top } = cell, size = heat.size;
  const colour = colourOf(shard, heat.colour);
  pen.fillStyle = colour || unknown;
  pen.fillRect(left, top, size, size);
  if (!colour || (heat.colour === "lag" && shard.lagKind === AT_MOST)) {
    pen.fillStyle = striped;
    pen.fillRect(left, top, size, size);
  }
  if (size >= 26) {
    pen.fillStyle = ["#a51626", "#0b4a66", "#1f6f8f", "#7a1f5c", "#dc5f38"].includes(colour) ? "#ffffff" : "#16242b";
    pen.font = `${size >= 34 ? 12 : 10}px system-ui, sans-serif`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    if (colour) pen.fillText(shortName(shard), left + size / 2, top + size / 2);
    pen.textAlign = "left";
  }
  if (shard.level === 3) {
    pen.strokeStyle = bad;
    pen.lineWidth = size >= 15 ? 3 : 2;
    pen.strokeRect(left + 0.5, top + 0.5, size - 1, size - 1);
  }
}

function shortName(shard) { return shard.name.replace(/^.*[/]/, "").replace(/^shardId-0*(?=\d)/, ""); }

function drawLabel(pen, label) {
  const worker = label.worker;
  pen.save();
  pen.beginPath();
  pen.rect(label.left, label.top, label.width - 8, Math.max(label.size, 16));
  pen.clip();
  pen.font = `${worker && worker.level === 3 ? "700 " : ""}12px system-ui, sans-serif`;
  pen.fillStyle = worker && worker.level === 3 ? css("--bad") : css("--text");
  pen.textBaseline = "top";
  const count = ` ${label.count}`;
  const room = label.width - 12 - pen.measureText(count).width;
  let text = label.text;
  while (text.length > 4 && pen.measureText(text).width > room) text = `…${text.slice(2)}`;
  pen.fillText(text, label.left, label.top + 1);
  pen.fillStyle = css("--quiet");
  pen.fillText(count, label.left + pen.measureText(text).width + 2, label.top + 1);
  pen.restore();
}

function heatAt(x, y) {
  const below = y + document.getElementById("heat-frame").scrollTop;
  const cell = heat.cells.find((one) => x >= one.left && x <= one.right && below >= one.top && below <= one.bottom);
  return cell ? cell.shard : null;
}

function heatStep(key, shard) {
  const place = heat.cells.findIndex((cell) => cell.shard === shard);
  if (place < 0) return heat.cells.length ? heat.cells[0].shard : null;
  const here = heat.cells[place];
  if (key === "ArrowLeft") return (heat.cells[place - 1] || here).shard;
  if (key === "ArrowRight") return (heat.cells[place + 1] || here).shard;
  const isBelow = (cell) => key === "ArrowDown" ? cell.top > here.top : cell.top < here.top;
  const row = heat.cells.filter((cell) => isBelow(cell));
  row.sort((a, b) => Math.abs(a.top - here.top) + Math.abs(a.left - here.left) - Math.abs(b.top - here.top) - Math.abs(b.left - here.left));
  return (row[0] || here).shard;
}

// Scrolls the frame so that the cell under the cursor is in sight.
function showCell() {
  const cell = heat.cells.find(({ shard }) => shard.key === heat.cursor);
  const frame = document.getElementById("heat-frame");
  if (!cell) return;
  if (cell.top < frame.scrollTop) frame.scrollTop = cell.top - 4;
  if (cell.bottom > frame.scrollTop + frame.clientHeight) frame.scrollTop = cell.bottom - frame.clientHeight + 4;
}

function heatLegend() {
  const list = heat.colour === "state"
    ? [...new Set(state.shards.filter((shard) => !isOver(shard)).map((shard) => stateOf(shard).code))]
      .map((code) => legendItem(STATE_COLOURS[code], state.states.find((one) => one.code === code).name))
    : stepWords(heat.colour).map((words, step) => legendItem((heat.colour === "kbps" ? BLUES : HEAT)[step], words));
  if (heat.colour === "lag") list.push(legendItem(HEAT[2], "striped: at most so much", true));
  if (heat.colour !== "state") list.push(legendItem(css("--quiet"), "not known", true));
  list.push(legendItem(css("--panel"), "red frame: needs a person", false, true));
  document.getElementById("heat-legend").replaceChildren(...list);
}
