// Starts the page: looks again and again while somebody sees it, and answers clicks and keys.
"use strict";

let timer = null, isAsking = false;

function showAll(hasNews) {
  showStatus();
  if (!state.look.at) return;
  document.title = `${state.look.application} – Headrace console`;
  document.getElementById("application").textContent = state.look.application;
  document.getElementById("place").textContent = `table ${state.look.table}, ${state.look.place}`;
  document.getElementById("cost").textContent = state.look.cost.sentence;
  document.getElementById("layout").textContent = `Layout of the tables: ${state.look.layout}. ${state.look.conclusion}.`;
  if (!hasNews) { drawRiver(); return; }
  showStreams(); showTiles(); showProblems(); showPeople(); showEvents(); showList();
  riverLegend(); heatLegend(); arrangeHeat(); drawRiver();
}

function showStreams() {
  const select = document.getElementById("stream"), names = state.look.streams.map((stream) => stream.name);
  document.getElementById("stream-choice").hidden = names.length < 2;
  if ([...select.options].map((option) => option.textContent).join("\n") === names.join("\n")) return;
  select.replaceChildren(...names.map((name, place) => element("option", { value: String(place) }, name)));
  river.stream = Math.min(river.stream, Math.max(0, names.length - 1));
  select.value = String(river.stream);
}

async function lookAgain() {
  if (isAsking || document.hidden) return;
  isAsking = true;
  clearTimeout(timer);
  try {
    const before = state.number;
    takeLook(await ask());
    state.failure = null;
    showAll(state.number !== before);
  } catch (error) {
    state.failure = error.isAnswer ? error.message : `The console doesn't answer (${error.message}). Its command may have ended.`;
    state.look = state.look || {};
    showStatus();
  }
  isAsking = false;
  timer = setTimeout(lookAgain, Math.max(2000, (state.look.again || 10000)));
}

function cssTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
  if (state.look && state.look.at) { riverLegend(); heatLegend(); drawHeat(); drawRiver(); }
}

function storedTheme() {
  try { return localStorage.getItem("headrace-theme"); } catch { return null; }
}

function startTheme() {
  cssTheme(storedTheme() || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("headrace-theme", theme); } catch { /* a file opened from disk may have no storage */ }
    cssTheme(theme);
  });
}

// A map is the river or the heat map: hover, click and arrow keys work alike on both.
function startMap(map, canvas, at, step, draw, show = () => {}) {
  map.canvas = canvas;
  const hint = document.getElementById("hint"), told = document.getElementById("told");
  canvas.addEventListener("mousemove", (event) => {
    const shard = state.look && at(event.offsetX, event.offsetY);
    hint.hidden = !shard;
    canvas.style.cursor = shard ? "pointer" : "default";
    if (!shard) return;
    hint.textContent = shardWords(shard);
    hint.style.left = `${Math.min(event.clientX + 14, innerWidth - 240)}px`;
    hint.style.top = `${Math.min(event.clientY + 14, innerHeight - 110)}px`;
  });
  canvas.addEventListener("mouseleave", () => { hint.hidden = true; });
  canvas.addEventListener("click", (event) => {
    const shard = at(event.offsetX, event.offsetY);
    if (shard) { map.cursor = shard.key; openShard(shard.key); }
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && map.cursor) { event.preventDefault(); openShard(map.cursor); return; }
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    const shard = step(event.key, state.byKey.get(map.cursor));
    if (!shard) return;
    map.cursor = shard.key;
    told.textContent = shardWords(shard).replaceAll("\n", ", ");
    show();
    draw();
  });
  canvas.addEventListener("focus", draw);
  canvas.addEventListener("blur", draw);
}

function pressed(on, off) {
  document.getElementById(on).setAttribute("aria-pressed", "true");
  document.getElementById(off).setAttribute("aria-pressed", "false");
}

function onClick(id, act) { document.getElementById(id).addEventListener("click", act); }

function startControls() {
  onClick("recent", () => { river.isEven = false; pressed("recent", "even"); drawRiver(); });
  onClick("even", () => { river.isEven = true; pressed("even", "recent"); drawRiver(); });
  onClick("by-worker", () => { heat.byWorker = true; pressed("by-worker", "by-hash"); arrangeHeat(); });
  onClick("by-hash", () => { heat.byWorker = false; pressed("by-hash", "by-worker"); arrangeHeat(); });
  document.getElementById("stream").addEventListener("change", (event) => { river.stream = Number(event.target.value); drawRiver(); });
  document.getElementById("colour").addEventListener("change", (event) => { heat.colour = event.target.value; heatLegend(); drawHeat(); });
  document.getElementById("heat-frame").addEventListener("scroll", drawHeat, { passive: true });
  document.getElementById("find").addEventListener("input", (event) => { list.words = event.target.value; list.page = 0; showList(); });
  document.getElementById("open-only").addEventListener("change", (event) => { list.isOpenOnly = event.target.checked; list.page = 0; showList(); });
  onClick("earlier", () => { list.page -= 1; showList(); });
  onClick("later", () => { list.page += 1; showList(); });
  onClick("close", closeShard);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") closeShard(); });
  document.addEventListener("visibilitychange", lookAgain);
  new ResizeObserver(() => { if (state.look && state.look.at) { arrangeHeat(); drawRiver(); } }).observe(document.querySelector("main"));
}

async function start() {
  startTheme();
  startMap(river, document.getElementById("river"), riverAt, riverStep, drawRiver);
  startMap(heat, document.getElementById("heat"), heatAt, heatStep, drawHeat, showCell);
  startControls();
  const stored = document.getElementById("stored");
  if (stored) {
    const data = JSON.parse(stored.textContent);
    state.isStored = true;
    state.pages = data.shards;
    takeLook(data.look);
    showAll(true);
    return;
  }
  await lookAgain();
  const key = new URLSearchParams(location.hash.slice(1)).get("shard");
  if (key) openShard(key);
}

start();
