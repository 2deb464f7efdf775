let before = null;
const latencies = [];

const PERIOD_MS = 1000;
const HISTORY_PERIOD_MS = 10000;
const LATENCY_HISTORY_MAX = 60;

// Returns the difference of counters between two documents, with the seconds between them. A counter
// that went down was reset, so its difference is null.
function since(last, now) {
  const secs = last ? (now.time_ms - last.time_ms) / 1000 : 0;
  const isSame = last && last.stats.pid === now.stats.pid && secs > 0;
  const of = (part) => (name) => {
    if (!isSame || now[part][name] === undefined) return null;
    const difference = now[part][name] - last[part][name];
    return difference >= 0 ? difference : null;
  };
  return { secs, stats: of("stats"), larder: of("larder") };
}

const COMMANDS = [
  ["get", ["cmd_get"], ["get_hits"]],
  ["set", ["cmd_set"], null],
  ["touch", ["cmd_touch"], ["touch_hits"]],
  ["delete", ["delete_hits", "delete_misses"], ["delete_hits"]],
  ["incr", ["incr_hits", "incr_misses"], ["incr_hits"]],
  ["decr", ["decr_hits", "decr_misses"], ["decr_hits"]],
  ["cas", ["cas_hits", "cas_misses", "cas_badval"], ["cas_hits"]],
  ["meta", ["cmd_meta"], null],
  ["flush", ["cmd_flush"], null],
];

const add = (read, names) => names.reduce((sum, name) => sum + (read(name) ?? NaN), 0);

function showRequests(status, change) {
  const counter = (name) => status.stats[name] ?? 0;
  fill("requests", ["command", right("per second"), right("hits"), right("total")],
    COMMANDS.map(([name, all, hits]) => {
      const events = add(change.stats, all);
      const share = hits === null ? "" : percent(add(change.stats, hits), events);
      return [name, right(count(events / change.secs)), right(share),
        total(add(counter, all))];
    }));
}

// Shows a value, and the point that continues its chart.
function showTile(name, value, more, number) {
  CHARTS.find((chart) => chart.name === name).show(value, more);
  if (number !== undefined) addLive(name, number);
}

function showTiles(status, change) {
  const now = status.stats;
  const perSecond = (name) => change.stats(name) === null ? null : change.stats(name) / change.secs;
  const all = add(change.stats, ["cmd_get", "cmd_set", "cmd_touch", "delete_hits", "delete_misses",
    "incr_hits", "incr_misses", "decr_hits", "decr_misses"]) / change.secs;
  const gets = change.stats("cmd_get");
  const hits = gets > 0 ? change.stats("get_hits") / gets : null;
  // The first sample has no rates. The server's history contains the points before it.
  const seen = (rate) => change.secs > 0 ? rate : undefined;
  showTile("requests_per_sec", count(all), `${count(perSecond("cmd_get"))} get, ` +
    `${count(perSecond("cmd_set"))} set`, seen(all));
  showTile("hit_ratio", hits === null ? "–" : (100 * hits).toFixed(1) + " %",
    `${percent(now.get_hits, now.cmd_get)} since start`, seen(hits));
  showTile("items", count(now.curr_items), `${count(now.total_items)} stored since start`,
    now.curr_items);
  showTile("item_bytes", bytes(now.bytes),
    `${percent(now.bytes, now.limit_maxbytes)} of ${bytes(now.limit_maxbytes)}`, now.bytes);
  showTile("connections", count(now.curr_connections), `at most ${count(now.max_connections)}`,
    now.curr_connections);
  const evictions = perSecond("evictions");
  showTile("evictions_per_sec", count(evictions), `${count(now.evictions)} since start`,
    seen(evictions));
  const [received, sent] = [perSecond("bytes_read"), perSecond("bytes_written")];
  showTile("received_bytes_per_sec", bytes(received), `${bytes(now.bytes_read)} since start`,
    seen(received));
  showTile("sent_bytes_per_sec", bytes(sent), `${bytes(now.bytes_written)} since start`,
    seen(sent));
  drawCharts();
}

function showEvictions(status, change) {
  const recent = change.stats("evictions");
  const age = recent > 0 ? duration(change.larder("evicted_age_secs") / recent) : "–";
  const rate = (value) => right(count(value === null ? null : value / change.secs));
  const row = (name, value, difference) => [name, rate(difference), total(value)];
  fill("evictions", ["event", right("per second"), right("total")], [
    row("evicted", status.stats.evictions, recent),
    row("evicted before any read", status.stats.evicted_unfetched,
      change.stats("evicted_unfetched")),
    row("expired", status.stats.reclaimed, change.stats("reclaimed")),
    row("misses of items evicted recently", status.larder.ghost_hits, change.larder("ghost_hits")),
    row("stores refused, no memory", status.stats.store_no_memory,
      change.stats("store_no_memory")),
  ]);
  fill("evicted-age", null, [
    ["mean age of items evicted now", right(age)],
    ["mean age of items evicted since start", right(duration(status.larder.eviction_age_secs))],
  ]);
}

function showConnections(status, change) {
  const now = status.stats;
  const rows = [
    ["open", right(`${count(now.curr_connections)} of ${count(now.max_connections)}`)],
    ["accepted per second", right(count(change.stats("total_connections") / change.secs))],
    ["refused at the limit", total(now.rejected_connections)],
    ["workers", total(now.threads)],
    ["longest silence of a worker", right(duration(status.silent_secs))],
    ["processor time per second", right(duration(
      add(change.stats, ["rusage_user", "rusage_system"]) / change.secs))],
  ];
  // Absent without --followers.
  if (status.larder.followers !== undefined) {
    rows.push(["near caches that follow", total(status.larder.followers)]);
  }
  fill("connections", null, rows);
}

const USES = ["main", "small", "index", "ghost", "free"];
const USE_WORDS = ["items, main pool", "items, small pool", "index", "ghost", "free"];
let drawn = null;

// Draws the cells in the colour of their most frequent use. The colour of item cells is stronger
// the more live bytes their segments have.
function showMap(map) {
  const canvas = $("map");
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const size = Math.max(8, Math.floor(width / Math.min(64, Math.max(16, map.cells.length))));
  const columns = Math.max(1, Math.floor(width / size));
  const lines = Math.ceil(map.cells.length / columns);
  canvas.width = width * ratio;
  canvas.height = lines * size * ratio;
  canvas.style.height = lines * size + "px";
  const colours = USES.map((use) =>
    getComputedStyle(document.documentElement).getPropertyValue("--" + use).trim());
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  map.cells.forEach((cell, i) => {
    const counts = cell.slice(0, 5);
    const use = counts.indexOf(Math.max(...counts));
    const x = (i % columns) * size, y = Math.floor(i / columns) * size;
    pen.globalAlpha = 1;
    pen.fillStyle = colours[4];
    pen.fillRect(x, y, size - 1, size - 1);
    pen.globalAlpha = use < 2 ? 0.15 + 0.85 * cell[5] / 100 : 1;
    pen.fillStyle = colours[use];
    pen.fillRect(x, y, size - 1, size - 1);
  });
  drawn = { map, size, columns };
}

function showMemory(status) {
  const { larder, segments } = status;
  const words = `${count(segments.segments)} segments of ${bytes(segments.segment_bytes)}: ` +
    `${count(larder.segments_items)} with items (${count(larder.segments_small)} of the small ` +
    `pool, ${larder.live_percent} % live), ${count(larder.segments_index)} index, ` +
    `${count(larder.segments_ghost)} ghost, ${count(larder.segments_free)} free, ` +
    `${count(larder.segments_pinned)} pinned by readers.`;
  $("memory-words").textContent = words;
  $("map").setAttribute("aria-label", words);
  const binned = segments.segments_per_cell > 1
    ? `A cell stands for ${count(segments.segments_per_cell)} segments. ` : "A cell is a segment. ";
  if ($("legend").dataset.words !== binned) {
    $("legend").dataset.words = binned;
    const parts = USES.map((use, i) => [make("span", "", "swatch " + use), USE_WORDS[i]]).flat();
    $("legend").replaceChildren(binned, "The stronger the colour, the more of it is live.",
      ...parts);
  }
  showMap(segments);
}

$("map").addEventListener("mousemove", (event) => {
  if (!drawn) return;
  const { map, size, columns } = drawn;
  const index = Math.floor(event.offsetY / size) * columns + Math.floor(event.offsetX / size);
  const cell = map.cells[index];
  if (!cell || event.offsetX >= columns * size) return;
  const first = index * map.segments_per_cell;
  const last = Math.min(first + map.segments_per_cell, map.segments) - 1;
  const uses = USE_WORDS.map((words, i) => cell[i] ? `${cell[i]} ${words}` : "").filter(Boolean);
  const live = cell[0] + cell[1] > 0 ? `, ${cell[5]} % live` : "";
  const name = first === last ? `Segment ${first}` : `Segments ${first} to ${last}`;
  $("cell").textContent = `${name}: ${uses.join(", ")}${live}`;
});

const ORIGIN_STATES = {
  copies: "reports its changes",
  timed: "reports no changes: copies expire",
  passes: "reports no changes at the moment",
  unreachable: "unreachable",
  unknown: "has not answered yet",
};

function showNear(status, change) {
  const { larder, origins } = status;
  $("near-section").hidden = origins.length === 0;
  if (origins.length === 0) return;
  const line = (words, name, unit = count) => {
    const difference = change.larder(name);
    const rate = difference === null ? null : difference / change.secs;
    const all = unit === count ? total(larder[name]) : right(unit(larder[name]));
    return [words, right(unit(rate)), all];
  };
  $("near-words").textContent = "A copy may be out of date for " +
    `${duration(larder.near_stale_max_ms / 1000)} if the network or a process hangs, ` +
    "and where an origin reports no changes.";
  fill("near-origins", ["origin", "state", right("keys"), right("fetched"), right("failed")],
    origins.map((origin) => {
      const is_usable = origin.fresh || origin.state === "passes";
      return [origin.address, [ORIGIN_STATES[origin.state], is_usable ? "" : "bad"],
        right(percent(origin.share, 1)), total(origin.fetches),
        total(origin.unreachable + origin.unanswered)];
    }));
  fill("near-work", ["work", right("per second"), right("since start")], [
    line("reads in the memory, reported", "local_reads"),
    line("reads that joined a fetch", "near_joined"),
    line("items fetched", "near_fetches"),
    line("bytes fetched", "near_fetched_bytes", bytes),
    line("commands passed on", "near_passed"),
    line("changes reported by origins", "near_changes"),
    line("copies dropped because of them", "near_dropped"),
  ]);
}

const TIER_WORDS = {
  store: "store: all items, memory keeps those in use",
  cache: "cache: the items that memory evicts",
};

function showTier(status, change) {
  const { tier, larder } = status;
  $("tier-section").hidden = !tier;
  if (!tier) return;
  const isStore = tier.mode === "store";
  $("tier-words").textContent = TIER_WORDS[tier.mode] +
    (isStore ? `; durability ${tier.durability}.` : "; a crash empties it.");
  $("tier-trouble").hidden = tier.trouble === null;
  $("tier-trouble").textContent = larder.tier_failed
    ? `The disk has failed: ${tier.trouble}. ` + (isStore
      ? "The server takes no changes until it is started again."
      : "It accepts no more items; the cache continues in memory.")
    : `An item could not be read: ${tier.trouble}.`;
  const [live, most] = [larder.tier_live_bytes, larder.tier_live_bytes_max];
  const share = (part, whole) => right(`${bytes(part)} of ${bytes(whole)}, ${percent(part, whole)}`);
  fill("tier-space", null, [
    ["items", total(larder.tier_items)],
    ["size of the log", right(bytes(larder.tier_size_bytes))],
    ["bytes of live items", isStore ? share(live, most) : right(bytes(live))],
    ["unused", right(bytes(larder.tier_free_bytes))],
    ["index, in memory", share(larder.tier_index_bytes, larder.tier_index_bytes_max)],
    ["not on the disk yet", right(bytes(larder.tier_dirty_bytes))],
  ]);
  const line = (words, name, unit) => {
    const difference = change.larder(name);
    const rate = difference === null ? null : difference / change.secs;
    const all = unit === count ? total(larder[name]) : right(unit(larder[name]));
    return [words, right(unit(rate)), all];
  };
  const meanSync = (us, syncs) => right(syncs > 0 ? duration(us / syncs / 1e6) : "–");
  fill("tier-work", ["work", right("per second"), right("since start")], [
    line("written", "tier_written_bytes", bytes),
    line("syncs", "tier_syncs", count),
    ["time of a sync, mean", meanSync(change.larder("tier_sync_us"), change.larder("tier_syncs")),
      meanSync(larder.tier_sync_us, larder.tier_syncs)],
    line("items read", "tier_reads", count),
    ...(isStore ? [line("items copied by reclaim", "tier_items_copied", count)] : [
      line("items evicted to the disk", "tier_items_evicted", count),
      line("items dropped", "tier_items_dropped", count)]),
    line("items unreadable", "tier_items_unreadable", count),
    line("segments damaged", "tier_segments_damaged", count),
  ]);
}

// Returns the upper bound of the bucket with the given share of the samples.
function quantile(bounds, counts, share) {
  const all = counts.reduce((sum, n) => sum + n, 0);
  let seen = 0;
  for (let i = 0; i < counts.length; i++) {
    seen += counts[i];
    if (all > 0 && seen >= share * all) return bounds[i] ?? Infinity;
  }
  return null;
}

function showLatency(status) {
  const latency = status.latency;
  $("latency-section").hidden = !latency;
  if (!latency) return;
  latencies.push({ pid: status.stats.pid, of: latency.counts });
  if (latencies.length > LATENCY_HISTORY_MAX) latencies.shift();
  const first = latencies.find((one) => one.pid === status.stats.pid).of;
  const text = (secs) => secs === Infinity ? "> 1 s" : secs === null ? "–" : "≤ " + duration(secs);
  const rows = Object.keys(latency.counts).map((name) => {
    const counts = latency.counts[name].map((n, i) => n - first[name][i]);
    const at = (share) => right(text(quantile(latency.bounds_secs, counts, share)));
    return [name, at(0.5), at(0.99), at(0.999), at(1)];
  });
  const titles = ["command", right("median"), right("99 %"), right("99.9 %"), right("slowest")];
  fill("latency", titles, rows);
}

function showHot(hot) {
  $("hot-section").hidden = hot === null;
  if (!hot) return;
  const rows = (list, value, error) => list.slice(0, 15).map((row) =>
    [[keyText(row), "key"], right(value(row)), right(error(row))]);
  fill("hot-rate", ["key", right("per second"), right("±")],
    rows(hot.by_rate, (row) => count(row.per_sec), (row) => count(row.error_per_sec)));
  fill("hot-bytes", ["key", right("bytes per second"), right("±")],
    rows(hot.by_bytes, (row) => bytes(row.bytes_per_sec),
      (row) => bytes(row.error_bytes_per_sec ?? null)));
  $("hot-words").textContent = `From ${count(hot.sampled)} sampled requests of about the last ` +
    `${duration(hot.window_secs)}. Reads by processes that map the memory appear only in part.`;
}

const SLOW_MAX = 10;

function showSlow(slow) {
  $("slow-section").hidden = !slow || (slow.slower_than_us === null && slow.latest.length === 0);
  if ($("slow-section").hidden) return;
  const shown = slow.latest.slice(0, SLOW_MAX);
  $("slow").hidden = shown.length === 0;
  const secs = (us) => right(duration(us / 1e6));
  // A phone does not show these columns.
  const minor = (text) => [text, "number effect"];
  fill("slow", ["at (UTC)", "command", "key", right("took"), right("ran"), minor("bytes"),
    ["client", "effect"]], shown.map((row) => {
    const at = make("th", row.at.slice(11, 19));
    at.title = row.at;
    const others = row.requests > 1 ? ` and ${count(row.requests - 1)} more` : "";
    return [at, row.command + others, [hasKey(row) ? keyText(row) : "", "key"],
      secs(row.duration_us), secs(row.run_us), minor(bytes(row.bytes)), [row.peer, "effect"]];
  }));
  const least = slow.slower_than_us === null ? "Slow requests" :
    `Requests that took at least ${duration(slow.slower_than_us / 1e6)} (--log-slower-than)`;
  $("slow-words").textContent = `${least}: ${count(slow.slow_requests)} since the start. ` +
    "If one took much longer than it ran, it waited for other requests or for the disk.";
}

// Returns the value of an option with its unit.
function valueText(option) {
  if (option.value === null) return "not set";
  return option.unit ? `${option.value} ${option.unit}` : option.value;
}

let options = null;
function showConfiguration() {
  if (!options) return;
  const shown = options.filter((option) =>
    $("all").checked || (option.origin !== null && option.origin !== "default"));
  const rows = shown.map((option) =>
    [option.name, [valueText(option), "key"], option.origin ?? "", [option.doc, "effect"]]);
  fill("configuration", ["option", "value", "source", ["effect", "effect"]], rows);
  if (shown.length === 0) {
    $("configuration").replaceChildren(make("caption", "All options have their defaults."));
  }
}
$("all").addEventListener("change", showConfiguration);

function show(status, hot, slow, ready) {
  const change = since(before, status);
  if (before && before.stats.pid !== status.stats.pid) forgetSeries();
  before = status;
  $("login").hidden = true;
  $("main").hidden = false;
  const { stats, larder } = status;
  $("version").textContent = `${larder.larder_version} (${larder.larder_commit}), ` +
    `as memcached ${stats.version}, process ${stats.pid} at ${location.host}`;
  $("uptime").textContent = "up " + duration(stats.uptime);
  if (ready.reasons.length > 0) badge(ready.reasons.join(", "), "warn");
  else badge("serving", "good");
  showTiles(status, change);
  showRequests(status, change);
  showLatency(status);
  showEvictions(status, change);
  showConnections(status, change);
  showMemory(status);
  showNear(status, change);
  showTier(status, change);
  showHot(hot);
  showSlow(slow);
}

// Requests a document. If the server refuses it, for example the hot keys with -X, its section is
// not shown.
async function askIfAllowed(path) {
  try {
    return await ask(path);
  } catch (error) {
    if (error.status === 403 || error.status === 404) return null;
    throw error;
  }
}

let slow = null;
let slowOf = "";

// Requests the slow requests, if there are others since the last time.
async function askSlow(status) {
  const of = `${status.stats.pid} ${status.larder.slow_requests}`;
  if (of !== slowOf) {
    slow = await askIfAllowed("/api/v1/slow");
    slowOf = of;
  }
  return slow;
}

// Requests whether the server is ready. A response with status 503 contains the reasons.
async function askReady() {
  const response = await fetch("/ready", { cache: "no-store", signal: AbortSignal.timeout(5000) });
  return response.json();
}

function refused(error) {
  before = null;
  askForToken(error, "A token of the role read or full shows the status.");
}

// Requests the history from time to time, because it covers the time before the page was opened.
let historyAsked = -Infinity;
let isWindowChosen = false;
async function updateHistory() {
  if (performance.now() - historyAsked < HISTORY_PERIOD_MS) return;
  historyAsked = performance.now();
  const history = await ask("/api/v1/history");
  takePast(history);
  // The chart of the last hour is empty if the server has just started.
  const pastMs = history.columns.items.length * history.interval_secs * 1000;
  if (!isWindowChosen && pastMs < WINDOWS.minutes) chooseWindow("minutes");
  isWindowChosen = true;
}

async function begin() {
  try {
    const [status, hot, ready] =
      await Promise.all([ask("/api/v1/status"), askIfAllowed("/api/v1/hot?limit=15"), askReady(),
        updateHistory()]);
    options ??= await ask("/api/v1/configuration");
    show(status, hot, await askSlow(status), ready);
    if ($("configuration").childElementCount === 0) showConfiguration();
  } catch (error) {
    historyAsked = -Infinity;
    if (error.status === 401 || error.status === 403) return refused(error);
    before = null;
    options = null;
    $("configuration").replaceChildren();
    badge(error.status ? error.message : "no answer", "bad");
  }
  schedule();
}

let timer = null;
function schedule() {
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(begin, PERIOD_MS);
}
document.addEventListener("visibilitychange", schedule);
window.addEventListener("resize", () => drawn && showMap(drawn.map));
begin();
