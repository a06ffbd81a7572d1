// Numbers and times as people read them, and colours.
"use strict";

const STEPS = [10, 60, 600, 3600, 21600];
const STEP_WORDS = ["10 s or less", "1 min", "10 min", "1 h", "6 h", "more"];
const HEAT = ["#a9d8cf", "#62b6ac", "#f0d26b", "#ee9d45", "#dc5f38", "#a51626"];
const BLUES = ["#dbeaf0", "#b0d3e0", "#7db6cb", "#4a94b0", "#1f6f8f", "#0b4a66"];
const STATE_COLOURS = {
  reading: "#62b6ac", assigned: "#9ccfc9", handover: "#7d8ee0", unowned: "#ee9d45", silent: "#a51626", dropped: "#c2410c",
  failing: "#dc2f45", waiting: "#b7c6cc", ended: "#c9d6db", "no-lease": "#f0d26b", before: "#dfe7ea", orphan: "#7a1f5c",
};

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "unknown";
  if (seconds < 1) return "0 s";
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1).replace(".0", "")} h`;
  return `${(seconds / 86400).toFixed(1).replace(".0", "")} days`;
}

function size(bytes) {
  if (bytes === null || bytes === undefined) return "unknown";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes, unit = 0;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

function number(value) { return value.toLocaleString("en-US", { maximumFractionDigits: 1 }); }
function clock(milliseconds) { return new Date(milliseconds).toISOString().slice(11, 19); }
function plural(count, word) { return `${number(count)} ${word}${count === 1 ? "" : "s"}`; }

function lagWords(shard) {
  const lag = lagOf(shard);
  if (lag === null) return "unknown";
  return shard.lagKind === AT_MOST ? `${duration(lag)} at most` : duration(lag);
}

function lossWords(shard) {
  if (!shard.risk) return "";
  if (shard.losesAt === null || shard.losesAt === undefined) return shard.risk >= 2 ? "may be near" : "";
  const seconds = (shard.losesAt - now()) / 1000;
  return seconds <= 60 ? "now" : `in ${duration(seconds)}`;
}

// The place on a scale of six steps; null where the value isn't known.
function stepOf(shard, colour) {
  if (colour === "lag") {
    const lag = lagOf(shard);
    return lag === null ? null : STEPS.filter((step) => lag > step).length;
  }
  const value = colour === "kbps" ? shard.kbps : backlogOf(shard);
  if (value === null || value === undefined) return null;
  const [low, factor] = colour === "kbps" ? [1, 5] : [1e5, 10];
  return value < low ? 0 : Math.min(5, 1 + Math.floor(Math.log(value / low) / Math.log(factor)));
}

function stepWords(colour) {
  if (colour === "lag") return STEP_WORDS;
  return colour === "kbps"
    ? ["less than 1", "1 to 5", "5 to 25", "25 to 125", "125 to 625", "more"]
    : ["less than 0.1 MB", "1 MB", "10 MB", "100 MB", "1 GB", "more"];
}

function colourOf(shard, colour) {
  if (colour === "state") return STATE_COLOURS[stateOf(shard).code];
  const step = stepOf(shard, colour);
  return step === null ? null : (colour === "kbps" ? BLUES : HEAT)[step];
}

function shardWords(shard) {
  const lines = [shard.name, stateOf(shard).name];
  const owner = ownerOf(shard);
  if (owner) lines.push(`read by ${owner}`);
  if (!isOver(shard)) lines.push(`lag: ${lagWords(shard)}`);
  if (lossWords(shard)) lines.push(`loss: ${lossWords(shard)}`);
  return lines.join("\n");
}

function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value; else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function fitted(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

// Stripes say that a colour is a bound, or that nothing is known.
function stripes(pen, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const tilePen = tile.getContext("2d");
  tilePen.strokeStyle = colour;
  tilePen.lineWidth = 1.4;
  tilePen.beginPath();
  for (const offset of [-6, 0, 6]) { tilePen.moveTo(offset, 6); tilePen.lineTo(offset + 6, 0); }
  tilePen.stroke();
  return pen.createPattern(tile, "repeat");
}
