// What is text: the tiles, the problems, the workers, the events, the list of shards, and the page of one shard.
"use strict";

const PAGE = 25, MOST_WORKERS = 12;
const list = { page: 0, words: "", isOpenOnly: true };

function tile(name, value, words, level = "plain") {
  return element("dl", { class: `tile ${level}` }, element("dt", {}, name), element("dd", { title: String(value) }, String(value)), element("p", {}, words));
}

function sumOf(shards, value) {
  const known = shards.map(value).filter((one) => one !== null && one !== undefined);
  return [known.reduce((sum, one) => sum + one, 0), known.length];
}

function showTiles() {
  const look = state.look;
  const open = state.shards.filter((shard) => !isOver(shard));
  // What an orphan lease lags behind is gone.
  const behind = open.filter((shard) => lagOf(shard) !== null && stateOf(shard).code !== "orphan");
  const worst = behind.reduce((most, shard) => most === null || lagOf(shard) > lagOf(most) ? shard : most, null);
  const [kbps, withKbps] = sumOf(open, (shard) => shard.kbps), [backlog, withBacklog] = sumOf(open, backlogOf);
  const losing = open.filter((shard) => shard.losesAt && shard.risk > 0).sort((a, b) => a.losesAt - b.losesAt)[0];
  const untold = open.filter(isUntold).length;
  // A 0 beside shards of unknown lag would say that all is read.
  const isKnown = worst && !(untold && lagOf(worst) === 0);
  const unsure = open.filter((shard) => shard.risk >= 2 && !shard.losesAt).length;
  document.getElementById("tiles").replaceChildren(
    tile("Open leases", number(look.open), look.unowned ? `${number(look.unowned)} without a worker` : "each has a worker", look.unowned ? "warn" : "good"),
    tile("Workers", number(look.workers.length), `${number(look.ideal)} leases each would be even`, look.workers.some((worker) => worker.level === 3) ? "bad" : "good"),
    tile("Greatest lag", isKnown ? lagWords(worst) : "unknown", untold ? `${plural(untold, "shard")} of unknown lag` : worst ? worst.name : "no lease tells it", worst && worst.lagKind === MEASURED && lagOf(worst) > 3600 ? "warn" : "plain"),
    tile("Throughput", withKbps ? `${number(kbps)} KB/s` : "unknown", withKbps < open.length ? `${number(withKbps)} of ${number(open.length)} shards tell theirs` : "of all shards"),
    tile("Backlog", withBacklog ? `≈ ${size(backlog)}` : "unknown", withBacklog ? "an estimate: lag times throughput" : "needs lag and throughput"),
    tile("Next loss", losing ? lossWords(losing) : unsure ? "may be near" : "none in sight",
      losing ? losing.name : unsure ? `${plural(unsure, "shard")} of unknown lag` : look.streams.some((stream) => stream.retention) ? "by the retention" : "the retention isn't known",
      losing ? LEVELS[losing.risk] : unsure ? "warn" : "plain"),
    tile("Leader", look.leader.worker || "none", leaderAge(look.leader), LEVELS[look.leader.level]),
  );
}

function leaderAge(leader) {
  if (!leader.worker) return "";
  if (leader.still === null) return "";
  return leader.still ? `no renewal for ${duration(leader.still)}, ${duration(leader.promised)} allowed` : "lock renewed just now";
}

function showStatus() {
  const look = state.look, status = document.getElementById("status"), trouble = document.getElementById("trouble");
  const urgent = (look.problems || []).filter((problem) => problem.level === 3).length;
  const age = look.at ? Math.round((Date.now() - look.at) / 1000) : null;
  const when = age === null ? "" : state.isStored ? `, as of ${new Date(look.at).toISOString().slice(0, 19).replace("T", " ")} UTC` : "";
  const words = age === null ? "nothing seen yet" : urgent ? `${urgent === 1 ? "one thing needs" : `${urgent} things need`} a person` : "nothing needs a person";
  const text = words + when;
  // Only when it changes: a screen reader tells each change.
  if (status.textContent !== text) status.textContent = text;
  status.className = `pill ${age === null ? "warn" : urgent ? "bad" : "good"}`;
  const sentence = state.failure || (look.trouble && look.trouble.sentence);
  trouble.hidden = !sentence;
  if (sentence) {
    const kept = look.at ? ` The page shows the last good look, ${duration(age)} old.` : " Nothing was seen yet.";
    trouble.textContent = `${sentence}${kept}`;
  }
}

function showProblems() {
  const problems = state.look.problems;
  const items = problems.map((problem) => {
    const item = element("li", { class: LEVELS[problem.level], "data-code": problem.code }, element("strong", {}, problem.level === 3 ? "Needs a person:" : problem.level === 2 ? "Look at it:" : "Worth knowing:"), problem.sentence);
    const key = problem.keys.find((one) => state.byKey.has(one));
    if (key) {
      const button = element("button", { type: "button" }, "show the shard");
      button.addEventListener("click", () => openShard(key));
      item.append(" ", button);
    }
    return item;
  });
  if (!items.length) items.push(element("li", { class: "good" }, "This look shows nothing that needs a person."));
  document.getElementById("problems").replaceChildren(...items);
}

// The greatest lag and the whole backlog of each worker, as far as they are known.
function loadsOf() {
  const loads = new Map();
  for (const shard of state.shards) {
    if (isOver(shard) || stateOf(shard).code === "orphan") continue;
    const owner = ownerOf(shard), load = loads.get(owner) || { worst: null, backlog: null, untold: false };
    if (isUntold(shard)) load.untold = true;
    if (lagOf(shard) !== null && (load.worst === null || lagOf(shard) > lagOf(load.worst))) load.worst = shard;
    if (backlogOf(shard) !== null) load.backlog = (load.backlog || 0) + backlogOf(shard);
    loads.set(owner, load);
  }
  return loads;
}

function showPeople() {
  const look = state.look;
  const leader = document.getElementById("leader");
  leader.textContent = look.leader.sentence + ".";
  leader.className = `level-${LEVELS[look.leader.level]}`;
  document.getElementById("balance").textContent = look.workers.length
    ? `${plural(look.open, "open lease")} on ${plural(look.workers.length, "worker")}: ${number(look.ideal)} each would be even. The most and the fewest differ by ${look.spread}${look.spread <= 1 ? ", which is as even as it can be" : ""}.`
    : "No worker has a lease or a row.";
  const loads = loadsOf(), nothing = { worst: null, backlog: null, untold: false };
  const most = Math.max(look.ideal, ...look.workers.map((worker) => worker.leases), 1);
  const urgent = [...look.workers].sort((a, b) => b.level - a.level || Math.abs(b.over) - Math.abs(a.over) || a.name.localeCompare(b.name, "en", { numeric: true }));
  const rows = urgent.slice(0, MOST_WORKERS).map((worker) => {
    const load = element("span", { class: "load", "aria-hidden": "true" }, element("i"), element("b", { title: "even share" }));
    load.firstChild.style.width = `${100 * worker.leases / most}%`;
    load.lastChild.style.left = `${100 * look.ideal / most}%`;
    const { worst, backlog, untold } = loads.get(worker.name) || nothing;
    return element("tr", {}, element("th", { scope: "row" }, worker.name), element("td", {}, number(worker.leases), load),
      element("td", { class: "number" }, untold && !(worst && lagOf(worst)) ? "unknown" : worst ? lagWords(worst) : "–"), element("td", { class: "number" }, backlog === null ? "–" : size(backlog)),
      element("td", { class: "number" }, number(worker.kbps)), element("td", { class: `level-${LEVELS[worker.level]}` }, worker.sentence));
  });
  document.querySelector("#workers tbody").replaceChildren(...rows);
  const more = look.workers.length - rows.length;
  document.getElementById("workers-more").textContent = more > 0 ? `${number(more)} more workers, nearer to the even share; all of them are in the picture above.` : "";
}

function showEvents() {
  const items = state.look.events.map((event) => element("li", { class: `level-${LEVELS[event.level]}` }, element("time", { datetime: new Date(event.at).toISOString() }, clock(event.at)), element("span", {}, event.sentence)));
  if (!items.length) items.push(element("li", { class: "alone" }, element("span", { class: "quiet" }, "Nothing yet: handovers, splits, merges, and workers that come and go appear here as looks find them.")));
  document.getElementById("events").replaceChildren(...items);
}

function listed() {
  const words = list.words.toLowerCase();
  return state.shards
    .filter((shard) => !list.isOpenOnly || !isOver(shard))
    .filter((shard) => !words || [shard.name, ownerOf(shard) || "", stateOf(shard).name].some((text) => text.toLowerCase().includes(words)))
    .sort((a, b) => b.level - a.level || (lagOf(b) || 0) - (lagOf(a) || 0) || a.name.localeCompare(b.name, "en", { numeric: true }));
}

function showList() {
  const shards = listed(), pages = Math.max(1, Math.ceil(shards.length / PAGE));
  list.page = Math.min(list.page, pages - 1);
  const rows = shards.slice(list.page * PAGE, (list.page + 1) * PAGE).map((shard) => {
    const button = element("button", { type: "button", class: "link" }, shard.name);
    button.addEventListener("click", () => openShard(shard.key));
    return element("tr", {}, element("th", { scope: "row" }, button), element("td", { class: `level-${LEVELS[shard.level]}` }, stateOf(shard).name), element("td", {}, ownerOf(shard) || "–"),
      element("td", { class: "number" }, isOver(shard) ? "–" : lagWords(shard)), element("td", { class: "number" }, shard.kbps === null ? "–" : number(shard.kbps)),
      element("td", { class: "number" }, backlogOf(shard) === null ? "–" : size(backlogOf(shard))), element("td", { class: `level-${LEVELS[shard.risk]}` }, lossWords(shard)));
  });
  const body = document.querySelector("#list tbody");
  const focused = body.contains(document.activeElement) ? document.activeElement.textContent : null;
  body.replaceChildren(...(rows.length ? rows : [element("tr", {}, element("td", { colspan: "7", class: "quiet" }, "No shard is like this."))]));
  const again = focused && [...body.querySelectorAll("button")].find((button) => button.textContent === focused);
  if (again) again.focus();
  document.getElementById("pages").textContent = `page ${list.page + 1} of ${number(pages)}, ${plural(shards.length, "shard")}`;
  document.getElementById("earlier").disabled = list.page === 0;
  document.getElementById("later").disabled = list.page >= pages - 1;
}

// --- the page of one shard

let opener = null, openKey = null;

async function openShard(key) {
  opener = document.activeElement;
  openKey = key;
  const shard = state.byKey.get(key);
  const title = document.getElementById("shard-title");
  title.textContent = shard ? shard.name : key;
  document.getElementById("shard").hidden = false;
  document.getElementById("shard-body").replaceChildren(element("p", { class: "quiet" }, "asking ..."));
  title.focus();
  if (!state.isStored) history.replaceState(null, "", `#shard=${encodeURIComponent(key)}`);
  let details;
  try { details = await askShard(key); } catch (error) { details = { trouble: `The console doesn't answer (${error.message}).` }; }
  if (openKey === key) document.getElementById("shard-body").replaceChildren(...shardBody(details));
}

function closeShard() {
  if (document.getElementById("shard").hidden) return;
  document.getElementById("shard").hidden = true;
  openKey = null;
  if (!state.isStored) history.replaceState(null, "", location.pathname);
  if (opener && opener.isConnected) opener.focus();
}

function shardBody(details) {
  if (details.trouble) return [element("p", { class: "level-warn" }, details.trouble)];
  const facts = element("dl");
  for (const [name, value] of details.facts) facts.append(element("dt", {}, name), element("dd", {}, value));
  const parts = [element("p", { class: `level-${LEVELS[details.level]}` }, `${capital(details.state)}: ${details.sentence}`)];
  if (details.words !== details.sentence) parts.push(element("p", { class: "quiet" }, details.words));
  parts.push(facts);
  if (details.landed_trouble) parts.push(element("p", { class: "level-warn" }, `The lake table can't be read: ${details.landed_trouble}`));
  if (details.landed) parts.push(...landedBody(details.landed));
  return parts;
}

function capital(text) { return text.charAt(0).toUpperCase() + text.slice(1); }

function landedBody(landed) {
  const parts = [element("h3", {}, `In ${landed.table}`)];
  if (!landed.ranges.length) return [...parts, element("p", {}, "Nothing of this shard has landed yet.")];
  parts.push(element("p", {}, `${plural(landed.rows, "row")}, up to ${landed.position}.`));
  for (const typed of landed.typed) {
    parts.push(element("p", { class: typed.quarantined ? "level-warn" : "" }, `${typed.table}: ${plural(typed.parsed, "row")} parsed, ${number(typed.quarantined)} in quarantine.`));
  }
  const body = element("tbody");
  for (const range of landed.ranges) {
    const run = state.look.dagster ? element("a", { href: `${state.look.dagster}/runs/${encodeURIComponent(range.run)}`, target: "_blank", rel: "noopener" }, range.run.slice(0, 8)) : range.run.slice(0, 8);
    const files = element("details", {}, element("summary", {}, plural(range.files.length, "file")), ...range.files.map((name) => element("div", { class: "quiet" }, name)));
    body.append(element("tr", {}, element("td", {}, new Date(range.at).toISOString().slice(5, 19).replace("T", " ")), element("td", {}, range.kind), element("td", { class: "number" }, number(range.rows)), element("td", { class: "number" }, size(range.bytes)), element("td", {}, run), element("td", {}, files)));
  }
  const head = element("tr", {}, ...["Committed (UTC)", "Kind", "Rows", "Bytes", "Run", "Files"].map((name) => element("th", { scope: "col" }, name)));
  parts.push(element("h3", {}, "Ranges, the newest first"), element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), body)));
  if (landed.left_out) parts.push(element("p", { class: "quiet" }, `${plural(landed.left_out, "older range")}: headrace lineage shows them.`));
  return parts;
}
