// What the page knows: the newest look, and each shard as a row that later looks change in place.
"use strict";

const FIXED = ["key", "name", "stream", "generation", "from", "to", "parents", "born", "closed", "isClosed"];
const MOVING = ["state", "level", "owner", "nextOwner", "position", "lag", "since", "lagKind", "kbps", "risk", "losesAt"];
const MEASURED = 0, AT_MOST = 1, UNKNOWN = 2;
const LEVELS = ["good", "note", "warn", "bad"];

const state = {
  look: null, shards: [], states: [], byKey: new Map(), family: "", number: 0, answeredAt: 0,
  isStored: false, pages: {}, failure: null,
};

// Takes an answer of /api/look: everything, or what changed since the last one.
function takeLook(answer) {
  const has = Boolean(answer.moving);
  state.look = has ? answer : { ...(state.look || {}), ...answer };
  state.answeredAt = Date.now();
  if (!has) return;
  if (answer.fixed) {
    state.states = answer.states;
    state.shards = answer.fixed.map((row) => Object.fromEntries(FIXED.map((name, place) => [name, row[place]])));
    state.shards.forEach((shard, place) => { shard.place = place; });
    state.byKey = new Map(state.shards.map((shard) => [shard.key, shard]));
    state.family = answer.family;
  }
  for (const [place, ...row] of answer.moving) {
    const shard = state.shards[place];
    MOVING.forEach((name, index) => { shard[name] = row[index]; });
  }
  state.number = answer.number;
}

// The moment for which the page shows ages: it goes on while looks come, and stands still in a stored page.
function now() {
  const look = state.look;
  if (!look || !look.at) return Date.now();
  return state.isStored ? look.at : look.at + (Date.now() - state.answeredAt);
}

// Seconds that a shard is behind; a bound where that is all that is known; null where nothing is.
function lagOf(shard) {
  if (shard.since) return Math.max(0, (state.look.at - shard.since) / 1000);
  return shard.lag === undefined ? null : shard.lag;
}

// Unread bytes, an estimate: the lag times the throughput.
function backlogOf(shard) {
  if (isOver(shard) || shard.lagKind !== MEASURED) return null;
  const lag = lagOf(shard);
  return lag === 0 ? 0 : lag === null || shard.kbps === null ? null : lag * shard.kbps * 1024;
}

function stateOf(shard) { return state.states[shard.state]; }
function ownerOf(shard) { return shard.owner === null || shard.owner === undefined ? null : state.look.names[shard.owner]; }
// Whether nothing tells how far behind the shard is. One that waits for its parents is read by nobody, and its parents' lag counts.
function isUntold(shard) { return lagOf(shard) === null && !["ended", "before", "waiting", "no-lease", "orphan"].includes(stateOf(shard).code); }
function isOver(shard) { const code = stateOf(shard).code; return code === "ended" || code === "before"; }

// Every request asks the server, which looks at AWS at most as often as it says in `again`.
async function ask() {
  const query = new URLSearchParams({ family: state.family, since: String(state.number) });
  const answer = await fetch(`api/look?${query}`);
  const body = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(body.trouble || `The console answered ${answer.status}.`), { isAnswer: true });
  return body;
}

async function askShard(key) {
  if (state.isStored) return state.pages[key] || { key, name: key, trouble: "This file has no page of this shard." };
  const answer = await fetch(`api/shard?${new URLSearchParams({ key })}`);
  return answer.json();
}
