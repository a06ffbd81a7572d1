// The shards as bands in time: time to the right, hash keys from top to bottom.
"use strict";

const TICKS = [60, 600, 3600, 21600, 86400, 604800, 2592000, 31536000];
const CURVE = 26, EDGE = 8, FOOT = 24;

const river = { stream: 0, isEven: false, bands: [], cursor: null, canvas: null };

function riverShards() { return state.shards.filter((shard) => shard.stream === river.stream); }

// Where a shard begins, and whether that is known.
function bornOf(shard) {
  if (shard.born) return shard.born;
  const closings = shard.parents.map((place) => state.shards[place].closed).filter(Boolean);
  return closings.length ? Math.max(...closings) : null;
}

function timeScale(shards, width, end) {
  const births = shards.map(bornOf).filter(Boolean);
  const start = Math.min(...births, end - 600000);
  const span = Math.max(1000, end - start) * 1.03;
  const room = width - 2 * EDGE;
  const even = (time) => EDGE + room * (1 - Math.max(0, end - time) / span);
  const unit = 20000;
  const recent = (time) => EDGE + room * (1 - Math.log1p(Math.max(0, end - time) / unit) / Math.log1p(span / unit));
  return { x: river.isEven ? even : recent, span };
}

// Shards without hash keys, as in old tables, share the height evenly.
function heights(shards) {
  const lacks = shards.some((shard) => shard.from === null);
  const rows = new Map(shards.map((shard, place) => [shard, place]));
  return (shard) => lacks ? [rows.get(shard) / shards.length, (rows.get(shard) + 1) / shards.length] : [shard.from, shard.to];
}

function bandsOf(shards, width, height, end) {
  const { x, span } = timeScale(shards, width, end);
  const range = heights(shards);
  const bands = shards.map((shard) => {
    const [from, to] = range(shard);
    const top = EDGE + from * (height - EDGE - FOOT), bottom = EDGE + to * (height - EDGE - FOOT);
    const pad = Math.min(5, (bottom - top) * 0.14);
    const born = bornOf(shard);
    const left = born === null ? EDGE : x(born), right = x(shard.closed || end);
    return { shard, left, right: Math.max(right, left + 2), top: top + pad, bottom: bottom - pad, rawTop: top, rawBottom: bottom, isSure: born !== null };
  });
  return { bands, x, span };
}

function unreadFrom(shard, end) {
  if (isOver(shard)) return null;
  if (shard.lagKind === UNKNOWN) return 0;
  if (shard.since) return shard.since;
  return shard.lag ? end - shard.lag * 1000 : null;
}

function bandPath(pen, band, places) {
  const { left, right, top, bottom, shard } = band;
  const bend = Math.min(CURVE, (right - left) / 2);
  pen.beginPath();
  const parents = shard.parents.map((place) => places.get(place)).filter(Boolean);
  const sources = parents.filter((parent) => parent.rawBottom > band.rawTop && parent.rawTop < band.rawBottom);
  if (!sources.length || bottom - top < 2) { pen.rect(left, top, right - left, bottom - top); return; }
  sources.sort((a, b) => a.top - b.top);
  sources.forEach((source, place) => {
    // At a split a child begins as wide as its part of the parent; at a merge the gap between the parents closes.
    const above = sources[place - 1], below = sources[place + 1];
    const fromTop = Math.max(source.top, band.rawTop), fromBottom = Math.min(source.bottom, band.rawBottom);
    const toTop = above ? (above.bottom + source.top) / 2 - 0.5 : top, toBottom = below ? (source.bottom + below.top) / 2 + 0.5 : bottom;
    pen.moveTo(left, fromTop);
    pen.bezierCurveTo(left + bend / 2, fromTop, left + bend / 2, toTop, left + bend, toTop);
    pen.lineTo(left + bend, toBottom);
    pen.bezierCurveTo(left + bend / 2, toBottom, left + bend / 2, fromBottom, left, fromBottom);
    pen.closePath();
  });
  pen.rect(left + bend - 0.5, top, right - left - bend + 0.5, bottom - top);
}

function drawRiver() {
  const canvas = river.canvas;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (!width || !state.look || !state.look.at) return;
  const pen = fitted(canvas, width, height);
  const shards = riverShards(), end = now();
  const { bands, x, span } = bandsOf(shards, width, height, end);
  const places = new Map(bands.map((band) => [band.shard.place, band]));
  river.bands = bands;
  const colours = { water: css("--water"), old: css("--water-old"), panel: css("--panel"), bad: css("--bad"), quiet: css("--quiet") };
  const striped = stripes(pen, colours.panel);
  for (const band of bands.filter(({ shard }) => shard.level < 3)) drawBand(pen, band, places, x, end, colours, striped);
  for (const band of bands.filter(({ shard }) => shard.level === 3)) drawBand(pen, band, places, x, end, colours, striped);
  drawTicks(pen, x, span, end, height, colours);
  drawCursor(pen, river, bands);
}

function drawBand(pen, band, places, x, end, colours, striped) {
  const { shard, left, right, top, bottom } = band;
  const tall = bottom - top;
  const isBad = shard.level === 3;
  pen.save();
  if (tall < 2) {
    pen.beginPath();
    pen.rect(left, top, right - left, isBad ? Math.max(tall, 1) : tall);
  } else bandPath(pen, band, places);
  pen.fillStyle = isOver(shard) ? colours.old : colours.water;
  pen.fill();
  const from = unreadFrom(shard, end);
  if (from !== null) {
    pen.clip();
    const start = Math.max(left, from ? x(from) : left);
    pen.fillStyle = colourOf(shard, "lag") || colours.quiet;
    pen.fillRect(start, top - 4, Math.max(right - start, 2), tall + 8);
    if (shard.lagKind !== MEASURED) { pen.fillStyle = striped; pen.fillRect(start, top - 4, right - start, tall + 8); }
  }
  pen.restore();
  if (isBad && tall < 2) {
    pen.fillStyle = colours.bad;
    pen.fillRect(left, top, right - left, 1);
  } else if (isBad) {
    pen.strokeStyle = colours.bad;
    pen.lineWidth = 2.5;
    pen.strokeRect(left, top, right - left, tall);
  }
  drawName(pen, band);
}

function drawName(pen, band) {
  const { shard, left, right, top, bottom } = band;
  if (bottom - top < 13 || right - left < 60) return;
  pen.save();
  pen.beginPath();
  pen.rect(left + 4, top, right - left - 8, bottom - top);
  pen.clip();
  pen.font = "600 11px system-ui, sans-serif";
  pen.fillStyle = css("--text");
  pen.textBaseline = "middle";
  const name = shard.name.replace(/^shardId-0*(?=\d)/, "shard ");
  const owner = ownerOf(shard);
  const text = owner && right - left > 130 ? `${name}  ·  ${owner}` : name;
  const place = [left + Math.min(CURVE, (right - left) / 2) + 4, (top + bottom) / 2];
  // A rim in the ground's colour, because a name may lie on any colour.
  pen.strokeStyle = css("--panel");
  pen.lineWidth = 3;
  pen.lineJoin = "round";
  pen.globalAlpha = 0.75;
  pen.strokeText(text, ...place);
  pen.globalAlpha = 1;
  pen.fillText(text, ...place);
  pen.restore();
}

function drawTicks(pen, x, span, end, height, colours) {
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "alphabetic";
  const ages = river.isEven ? [0.25, 0.5, 0.75].map((part) => part * span / 1000) : TICKS.filter((age) => age * 1000 < span);
  let last = pen.canvas.clientWidth - 40;
  pen.fillStyle = colours.quiet;
  pen.textAlign = "right";
  pen.fillText("now", pen.canvas.clientWidth - EDGE, height - 7);
  pen.textAlign = "center";
  for (const age of ages) {
    const place = x(end - age * 1000);
    if (last - place < 62 || place < 34) continue;
    last = place;
    pen.strokeStyle = colours.quiet;
    pen.globalAlpha = 0.35;
    pen.lineWidth = 1;
    pen.beginPath(); pen.moveTo(place, EDGE); pen.lineTo(place, height - FOOT + 2); pen.stroke();
    pen.globalAlpha = 1;
    pen.fillText(`${duration(age)} ago`, place, height - 7);
  }
  const stream = state.look.streams[river.stream];
  if (stream && stream.retention && stream.retention * 1000 < span) {
    const place = x(end - stream.retention * 1000);
    pen.strokeStyle = colours.bad;
    pen.setLineDash([5, 4]);
    pen.lineWidth = 1.5;
    pen.beginPath(); pen.moveTo(place, EDGE); pen.lineTo(place, height - FOOT + 2); pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = colours.bad;
    pen.textAlign = place > 220 ? "right" : "left";
    pen.fillText("older records are gone", place + (place > 220 ? -5 : 5), height - FOOT - 2);
  }
  pen.textAlign = "left";
}

function drawCursor(pen, map, cells) {
  const cell = cells.find(({ shard }) => shard.key === map.cursor);
  if (!cell || document.activeElement !== map.canvas) return;
  pen.strokeStyle = css("--focus");
  pen.lineWidth = 3;
  pen.strokeRect(cell.left - 1, cell.top - 1, cell.right - cell.left + 2, Math.max(3, cell.bottom - cell.top + 2));
}

function riverAt(x, y) {
  for (let place = river.bands.length - 1; place >= 0; place -= 1) {
    const band = river.bands[place];
    if (x >= band.left && x <= band.right && y >= band.top - 1 && y <= band.bottom + 1) return band.shard;
  }
  return null;
}

// The shard to which an arrow key leads: to parents and children, or to the neighbour by hash keys.
function riverStep(key, shard) {
  const shards = riverShards();
  if (!shard) return shards.find((other) => !isOver(other)) || shards[0] || null;
  if (key === "ArrowLeft") return state.shards[shard.parents[0]] || shard;
  if (key === "ArrowRight") return shards.find((other) => other.parents.includes(shard.place)) || shard;
  const row = shards.filter((other) => isOver(other) === isOver(shard)).sort((a, b) => (a.from || 0) - (b.from || 0) || a.generation - b.generation);
  return row[row.indexOf(shard) + (key === "ArrowDown" ? 1 : -1)] || shard;
}

function riverLegend() {
  const items = [["--water", "read"], ["--water-old", "read to its end"]];
  const list = items.map(([name, words]) => legendItem(css(name), words));
  list.push(legendItem(HEAT[2], "not read yet, in the colour of its lag"), legendItem(css("--quiet"), "striped: may be unread; the lease table doesn't tell", true),
    legendItem(css("--panel"), "red frame: needs a person", false, true));
  document.getElementById("river-legend").replaceChildren(...list);
}

function legendItem(colour, words, isStriped = false, isFramed = false) {
  const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
  swatch.style.background = isStriped ? `repeating-linear-gradient(135deg, ${colour} 0 3px, ${css("--panel")} 3px 6px)` : colour;
  if (isFramed) swatch.style.border = `2px solid ${css("--bad")}`;
  return element("li", {}, swatch, words);
}
