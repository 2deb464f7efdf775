// The charts of the status page. They show the server's history, continued by the samples of the
// page. Times are those of performance.now(), so that steps of the system's clock do not move a
// point.

const PAST_STEP_MS = 10000;
const LIVE_KEPT_MS = 330000;
const WINDOWS = { hour: 3600000, minutes: 300000 };

// The points of a column: the history from the server, and the samples of this page, each { t, v }.
// A null value is unknown.
const series = {};
let shownWindow = "hour";
// The position of the pointer, in milliseconds before now; null for none.
let pointedAt = null;

function addLive(name, value) {
  const points = series[name] ??= { past: [], live: [] };
  const now = performance.now();
  points.live.push({ t: now, v: Number.isFinite(value) ? value : null });
  while (points.live[0].t < now - LIVE_KEPT_MS) points.live.shift();
}

// Replaces the history with the document of /api/v1/history.
function takePast(history) {
  const newest = performance.now() - (history.age_secs ?? 0) * 1000;
  for (const [name, values] of Object.entries(history.columns)) {
    const points = series[name] ??= { past: [], live: [] };
    points.past = values.map((v, i) =>
      ({ t: newest - (values.length - 1 - i) * history.interval_secs * 1000, v }));
  }
}

// Discards the points of a server process that was replaced.
function forgetSeries() {
  for (const name of Object.keys(series)) delete series[name];
}

// Returns the points to draw, the oldest first. An hour is drawn from the history and the samples
// after it. A few minutes are drawn from the samples, and from the history where samples are
// missing.
function pointsOf(name, from) {
  const { past, live } = series[name] ?? { past: [], live: [] };
  const newestPast = past.at(-1)?.t ?? -Infinity;
  const isHour = shownWindow === "hour";
  const chosen = isHour ? live.filter((point) => point.t > newestPast) : live;
  const isCovered = (t) => chosen.some((point) => point.t > t - PAST_STEP_MS && point.t <= t);
  const merged = [...past.filter((point) => isHour || !isCovered(point.t))
    .map((point) => ({ ...point, step: PAST_STEP_MS })),
  ...chosen.map((point) => ({ ...point, step: isHour ? PAST_STEP_MS : 3000 }))];
  return merged.filter((point) => point.t >= from).sort((one, other) => one.t - other.t);
}

// Returns the runs of points without a gap between them. Unknown values are not drawn.
function runsOf(points) {
  const runs = [];
  let last = null;
  for (const point of points) {
    if (point.v !== null) {
      const step = last ? Math.max(point.step, last.step) : 0;
      if (last && point.t - last.t <= 1.6 * step) runs.at(-1).push(point);
      else runs.push([point]);
    }
    last = point.v === null ? null : point;
  }
  return runs;
}

// Returns a round number in the displayed unit that is at least as large as the given one. It is
// the end of a scale.
function roundUp(number, base) {
  if (!(number > 0)) return base === 1024 ? 1024 : 1;
  const unit = base ** Math.max(0, Math.floor(Math.log(number) / Math.log(base)));
  const decade = 10 ** Math.floor(Math.log10(number / unit));
  const digits = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * decade * unit >= number);
  return digits * decade * unit;
}

const minutes = (ms) => `${Number((ms / 60000).toFixed(ms < 300000 ? 1 : 0))} min`;

// Returns the label of a scale's mark, without trailing zeros.
const markOf = (unit, number) => unit(number).replace(".0 ", " ");

// A tile with a value and its chart. `unit` formats a number, `base` is the factor between its
// units, and `fixed` is the end of the scale, if it is fixed.
class Chart {
  constructor(title, name, unit, { base = 1000, fixed = null } = {}) {
    Object.assign(this, { title, name, unit, base, fixed, more: "" });
    this.box = make("div", undefined, "tile");
    this.box.dataset.name = name;
    this.value = make("div", "", "value");
    this.words = make("div", "", "more");
    this.plot = make("div", undefined, "plot");
    this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.svg.setAttribute("viewBox", "0 0 1000 100");
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("role", "img");
    this.plot.append(this.svg);
    this.scale = [make("span"), make("span"), make("span", "0")];
    this.times = [make("span"), make("span"), make("span", "now")];
    const [scale, times] = [make("div", undefined, "scale"), make("div", undefined, "times")];
    scale.append(...this.scale);
    times.append(...this.times);
    const chart = make("div", undefined, "chart");
    chart.append(scale, this.plot, times);
    this.box.append(make("div", title, "name"), this.value, this.words, chart);
    this.plot.addEventListener("pointermove", (event) => {
      const share = event.offsetX / this.plot.clientWidth;
      pointedAt = Math.max(0, (1 - share) * WINDOWS[shownWindow]);
      drawCharts();
    });
    this.plot.addEventListener("pointerleave", () => {
      pointedAt = null;
      drawCharts();
    });
  }

  show(value, more) {
    this.value.textContent = value;
    this.more = more;
  }

  draw() {
    const now = performance.now();
    const width = WINDOWS[shownWindow];
    const points = pointsOf(this.name, now - width);
    const known = points.filter((point) => point.v !== null);
    const highest = known.reduce((most, point) => Math.max(most, point.v), 0);
    const top = this.fixed ?? roundUp(highest, this.base);
    const x = (t) => (1000 * (1 - (now - t) / width)).toFixed(1);
    const y = (v) => (100 - 100 * Math.min(1, v / top)).toFixed(1);
    const parts = [0, 50, 100].map((at) => line(`0,${at} 1000,${at}`, "grid"));
    for (const run of runsOf(points)) {
      // A point without neighbours is drawn as a short line.
      const ends = run.length > 1 ? run : [{ ...run[0], t: run[0].t - width / 300 }, run[0]];
      const path = ends.map((point) => `${x(point.t)},${y(point.v)}`).join(" ");
      parts.push(line(`${x(ends[0].t)},100 ${path} ${x(ends.at(-1).t)},100`, "area", "polygon"));
      parts.push(line(path, "curve"));
    }
    this.scale[0].textContent = markOf(this.unit, top);
    this.scale[1].textContent = markOf(this.unit, top / 2);
    this.scale[2].textContent = markOf(this.unit, 0);
    this.times[0].textContent = "−" + minutes(width);
    this.times[1].textContent = "−" + minutes(width / 2);
    this.words.textContent = this.more;
    if (pointedAt !== null) {
      const at = now - pointedAt;
      parts.push(line(`${x(at)},0 ${x(at)},100`, "pointer"));
      this.words.textContent = this.valueAt(points, at);
    }
    this.svg.replaceChildren(...parts);
    const lowest = known.reduce((least, point) => Math.min(least, point.v), Infinity);
    this.svg.setAttribute("aria-label", known.length === 0 ? `${this.title}: no values yet`
      : `${this.title} in the last ${minutes(now - known[0].t)}: ${this.unit(lowest)} to ` +
        this.unit(highest));
  }

  // Returns the value at a time, as text that fits into a line.
  valueAt(points, at) {
    const near = points.filter((point) => Math.abs(point.t - at) <= point.step);
    const distance = (point) => Math.abs(point.t - at);
    const nearest = near.sort((one, other) => distance(one) - distance(other))[0];
    const clock = new Date(Date.now() - pointedAt).toLocaleTimeString();
    return `${nearest && nearest.v !== null ? this.unit(nearest.v) : "unknown"} at ${clock}`;
  }
}

function line(points, kind, name = "polyline") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  element.setAttribute("points", points);
  element.setAttribute("class", kind);
  return element;
}

const ratio = (part) => Math.round(100 * part) + " %";
const CHARTS = [
  new Chart("Requests per second", "requests_per_sec", count),
  new Chart("Hit ratio of gets", "hit_ratio", ratio, { fixed: 1 }),
  new Chart("Items", "items", count),
  new Chart("Item bytes", "item_bytes", bytes, { base: 1024 }),
  new Chart("Connections", "connections", count),
  new Chart("Evictions per second", "evictions_per_sec", count),
  new Chart("Received per second", "received_bytes_per_sec", bytes, { base: 1024 }),
  new Chart("Sent per second", "sent_bytes_per_sec", bytes, { base: 1024 }),
];
$("tiles").replaceChildren(...CHARTS.map((chart) => chart.box));

function drawCharts() {
  for (const chart of CHARTS) chart.draw();
}

const choices = [...document.querySelectorAll("input[name=window]")];

function chooseWindow(name) {
  shownWindow = name;
  for (const choice of choices) choice.checked = choice.value === name;
  drawCharts();
}

for (const choice of choices) {
  choice.addEventListener("change", () => chooseWindow(choice.value));
}
