"use strict";
// The page is a pure function of its data (docs/report.md): render(data) may be called again at any time with others.
// All text from a log goes through textContent, attributes or a canvas, never through HTML.

const STATE = ["parameters", "gradients", "master_weights", "optimizer_state"];
const CATEGORIES = [...STATE, "gradient_buckets", "activations", "logits", "workspace", "communication", "control", "checkpoint"];
const COLORS = ["#4e79a7", "#f28e2b", "#9c755f", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#ff9da7", "#8cd17d", "#a0a0a0"];
const TIMES = [["forward", "forward"], ["backward", "backward"], ["comm_exposed", "exposed communication"], ["optimizer", "optimizer"]];
const MOST_ROWS = 300;
const MOST_BUCKETS = 32;

let charts = [];
let shown = null;

const color = (index) => COLORS[index % COLORS.length];
const rankColor = (rank) => `hsl(${(rank * 137.5) % 360} 60% ${rank % 2 ? 72 : 60}%)`;
const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const isNumber = (value) => typeof value === "number";
const words = (name) => name.replaceAll("_", " ");
const operation = (name) => name.replaceAll("_", "-");
const sum = (values) => values.reduce((total, value) => total + value, 0);

function number(value, digits = 2) {
  if (!isNumber(value)) return "–";
  return value.toLocaleString("en-US", Number.isInteger(value) ? {} : { maximumFractionDigits: digits });
}
function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  const unit = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, Math.abs(value))) / 3));
  return `${number(value / 1000 ** unit, 1)} ${units[unit]}`;
}
const percent = (value) => (isNumber(value) ? `${(100 * value).toFixed(1)} %` : "–");
const ratio = (value) => (isNumber(value) ? `${value.toFixed(3)}x` : "–");

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// A cell is text, a number, or {value, text} of a number that is written in another way. data-value has it in full.
function cell(content) {
  const { value, text } = content !== null && typeof content === "object" ? content : { value: content };
  const made = element("td", isNumber(value) ? { "data-value": value } : {}, text ?? (isNumber(value) ? number(value) : value ?? "–"));
  if (typeof value === "string" && value.length > 24) made.classList.add("text");
  return made;
}
function table(caption, head, rows) {
  const body = element("tbody", {}, ...rows.slice(0, MOST_ROWS).map((row) => element("tr", {}, ...row.map(cell))));
  const more = rows.length > MOST_ROWS ? ` The first ${MOST_ROWS} of ${number(rows.length)} rows.` : "";
  return element("div", { class: "scroll", tabindex: 0 },
    element("table", {}, element("caption", {}, caption + more),
      element("thead", {}, element("tr", {}, ...head.map((text) => element("th", {}, text)))), body));
}
const folded = (title, ...children) => element("details", {}, element("summary", {}, title), ...children);
function groups(pairs) {
  const made = new Map();
  for (const [key, value] of pairs) made.set(key, [...(made.get(key) ?? []), value]);
  return made;
}
const part = (section, name) => document.querySelector(`#${section} .${name}`);

// Vertical lines with names, where phases end: options.plugins.phases = [{at, name}].
const phaseLines = {
  id: "phases",
  afterDatasetsDraw(chart, _, options) {
    const { ctx, chartArea, scales } = chart;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = variable("--quiet");
    ctx.setLineDash([4, 4]);
    ctx.font = "11px system-ui, sans-serif";
    ctx.textAlign = "right";
    for (const [i, { at, name }] of Object.values(options.ends ?? {}).entries()) {
      const x = scales.x.getPixelForValue(at);
      ctx.beginPath();
      ctx.moveTo(x, chartArea.top);
      ctx.lineTo(x, chartArea.bottom);
      ctx.stroke();
      ctx.fillText(name, x - 3, chartArea.top + 12 + 14 * (i % 2));  // neighbours may lie close
    }
    ctx.restore();
  },
};

function draw(section, title, type, data, { stacked = false, unit = number, x = {}, most, ends = [] } = {}) {
  const canvas = element("canvas", { role: "img", "aria-label": title });
  part(section, "charts").append(element("figure", { style: "margin:0" }, element("h3", {}, title), element("div", { class: "chart" }, canvas)));
  const axis = { grid: { color: variable("--line") }, ticks: { color: variable("--quiet") } };
  const title_of = (text) => ({ display: Boolean(text), text, color: variable("--quiet") });
  charts.push(new Chart(canvas, {
    type, data, plugins: [phaseLines],
    options: {
      animation: false, maintainAspectRatio: false, interaction: { mode: "index", intersect: false },
      scales: {
        x: { ...axis, stacked: stacked && type === "bar", ...x, title: title_of(x.name) },
        y: { ...axis, stacked, beginAtZero: section !== "loss", suggestedMax: most, ticks: { ...axis.ticks, callback: (value) => unit(value) } },
      },
      plugins: {
        phases: { ends },
        legend: { labels: { color: variable("--text"), boxWidth: 14 }, position: "bottom" },
        tooltip: { callbacks: { label: (item) => `${item.dataset.label}: ${unit(item.parsed.y)}` } },
      },
    },
  }));
}
// The formula's value, a line across each bar.
const formulaMarks = (values) => ({
  type: "line", label: "formula", data: values, stack: "formula", showLine: false, pointStyle: "line", pointRadius: 32, pointHoverRadius: 32,
  borderColor: variable("--text"), borderWidth: 3, order: -1,
});
const bar = (label, data, index, stack = "measured") => ({ label, data, stack, backgroundColor: color(index), maxBarThickness: 120 });
const used = (names, holders) => [...new Set([...names, ...holders.flatMap(Object.keys)])].filter((name) =>
  name !== "total" && holders.some((holder) => holder[name] > 0));

function overview(runs) {
  const subject = runs.map((run) => run.name).filter((name, i, all) => name && all.indexOf(name) === i).slice(0, 6).join(", ");
  document.title = subject ? `${subject} – zerolab report` : "zerolab report";
  const sizes = new Set(runs.map((run) => `${number(run.layout.num_params)} parameters on ${number(run.ranks)} ranks, ${number(run.loss.steps)} steps`));
  document.querySelector("#subject").textContent = `${subject || "run"}: ${[...sizes].slice(0, 6).join("; ")}`;
  const notes = groups(runs.flatMap((run) => run.notes.map((note) => [note, run.label])));
  part("overview", "notes").replaceChildren(...[...notes].map(([note, labels]) => element("li", {}, `${labels.join(", ")}: ${note}`)));
  const peak = (run) => run.memory.ranks[run.memory.highest]?.total;
  part("overview", "tables").append(table("One line a run; bytes of the fullest rank at its peak.",
    ["run", "memory, bytes", "sent a step, bytes", "ratio to DDP", "tokens/s", "step, ms", "last loss", "against the first run"],
    runs.map((run) => [run.label, peak(run), run.communication.sent, { value: run.communication.ratio, text: ratio(run.communication.ratio) },
      run.throughput.tokens_per_s, run.ms?.step, { value: run.loss.last?.[1], text: number(run.loss.last?.[1], 6) }, verdict(run)])));
}

// Whether a ledger balances: names what neither formula nor padding explains.
function balance(runs, what, difference_of) {
  const known = runs.map((run) => [run.label, difference_of(run)]).filter(([, difference]) => isNumber(difference));
  const left = known.filter(([, difference]) => difference !== 0);
  if (known.length === 0) return element("p", { class: "quiet" }, "The formula does not hold for these runs as a whole: see the notes at the top.");
  return element("p", {}, left.length === 0 ? `${what} equal the formula and its padding, to the byte.`
    : `${what} that neither formula nor padding explain: ${left.map(([label, difference]) => `${label}: ${number(difference)}`).join("; ")}.`);
}

function verdict(run) {
  const { same_bits, largest_difference, compared_steps, at_step } = run.loss.against_first;
  if (compared_steps === 0) return "no step in common";
  if (same_bits) return `same bits in ${number(compared_steps)} steps`;
  const largest = isNumber(largest_difference) ? largest_difference.toExponential(1) : "not finite";
  return `largest difference ${largest} (relative, step ${number(at_step)}) in ${number(compared_steps)} steps`;
}

function memory(runs) {
  const peaks = runs.map((run) => run.memory.ranks[run.memory.highest]?.bytes ?? {});
  const categories = used(CATEGORIES, peaks);
  draw("memory", "Bytes of the fullest rank at its peak", "bar", {
    labels: runs.map((run) => run.label),
    datasets: [...categories.map((name, i) => bar(words(name), peaks.map((held) => held[name] ?? 0), Math.max(CATEGORIES.indexOf(name), i))),
      formulaMarks(runs.map((run) => sum(run.memory.state.map((state) => state.formula))))],
  }, { stacked: true, unit: bytes });
  part("memory", "tables").append(
    balance(runs, "Bytes of lasting state", (run) =>
      run.memory.state.length && run.memory.state.every((state) => isNumber(state.difference)) ? sum(run.memory.state.map((state) => Math.abs(state.difference))) : null),
    table("Bytes at the peak, by rank and category.", ["run", "rank", "total", ...categories.map(words)],
      runs.flatMap((run) => run.memory.ranks.map((rank) => [run.label, rank.rank, rank.total, ...categories.map((name) => rank.bytes[name] ?? 0)]))),
    table("State that lasts, bytes: the formula, what padding adds to it, what was tracked, and the difference that is left, which must be 0.",
      ["run", "category", "formula", "padding", "tracked", "difference"],
      runs.flatMap((run) => run.memory.state.map((state) =>
        [run.label, words(state.category), state.formula, state.padding, state.tracked, state.difference]))));
}

function timeline(runs) {
  const all = runs.flatMap((run) => run.timelines.map((one) => ({
    ...one, label: run.timelines.length > 1 ? `${run.label}, as ${one.title}` : run.label })));
  if (all.length === 0) {
    part("timeline", "tables").append(element("p", { class: "quiet" }, "The logs hold no timeline: no step was whole."));
    return;
  }
  const x = { type: "linear", name: "ms since the step began" };
  const gradients = (held) => (held?.gradients ?? 0) + (held?.gradient_buckets ?? 0);
  draw("timeline", "Gradients and their buckets", "line", {
    datasets: all.map((one, i) => ({ label: one.label, data: one.samples.map((sample) => ({ x: sample.ms, y: gradients(sample.bytes) })),
      borderColor: color(i), backgroundColor: color(i), borderWidth: 2, pointRadius: 0 })),
  }, { unit: bytes, x });
  const most = Math.max(...all.flatMap((one) => one.samples.map((sample) => sample.bytes?.total ?? 0)));
  for (const one of all) {
    const held = one.samples.map((sample) => sample.bytes ?? {});
    draw("timeline", `All memory of rank 0: ${one.label}, step ${number(one.step)}`, "line", {
      datasets: used(CATEGORIES, held).map((name, i) => ({ label: words(name), data: one.samples.map((sample, k) => ({ x: sample.ms, y: held[k][name] ?? 0 })),
        fill: i === 0 ? "origin" : "-1", backgroundColor: color(Math.max(CATEGORIES.indexOf(name), i)), borderWidth: 0, pointRadius: 0 })),
    }, { stacked: true, unit: bytes, x, most, ends: one.samples.filter((sample) => /^(forward|backward|step)$/.test(sample.phase)).map((sample) => ({ at: sample.ms, name: sample.phase })) });
    const columns = used(CATEGORIES, held);
    part("timeline", "tables").append(folded(`Numbers of ${one.label}: ${number(one.samples.length)} points`,
      table(`What rank 0 held when each phase of step ${number(one.step)} ended, bytes.`, ["phase", "ms", "total", ...columns.map(words)],
        one.samples.map((sample, k) => [sample.phase, sample.ms, held[k].total, ...columns.map((name) => held[k][name] ?? 0)]))));
  }
}

function communication(runs) {
  const sent = runs.map((run) => Object.fromEntries(run.communication.ops.map((entry) => [entry.op, entry.bytes])));
  draw("communication", "Bytes sent a step and rank", "bar", {
    labels: runs.map((run) => run.label),
    datasets: [...used([], sent).map((op, i) => bar(operation(op), sent.map((entry) => entry[op] ?? 0), i)),
      formulaMarks(runs.map((run) => run.communication.formula))],
  }, { stacked: true, unit: bytes });
  const base = runs.some((run) => isNumber(run.communication.ratio)) ? "" : " No run of DDP with the same model and ranks is here to give a ratio to.";
  part("communication", "tables").append(
    balance(runs, "Bytes sent", (run) => run.communication.difference),
    table(`Gradients and parameters, bytes: counted, the formula, what padding adds to it, and the difference that is left, which must be 0.${base}`,
      ["run", "sent", "ratio to DDP", "formula", "padding", "difference"],
      runs.map((run) => [run.label, run.communication.sent, { value: run.communication.ratio, text: ratio(run.communication.ratio) },
        run.communication.formula, run.communication.padding, run.communication.difference])),
    table("By operation and purpose, a step and rank.", ["run", "operation", "calls", "bytes sent", "waiting for peers, ms", "transfer, ms"],
      runs.flatMap((run) => run.communication.ops.map((entry) => [run.label, operation(entry.op), entry.calls, entry.bytes, entry.wait_ms, entry.transfer_ms]))));
}

function time(runs) {
  const ms = (run, name) => (isNumber(run.ms?.[name]) ? run.ms[name] : 0);
  draw("time", "Milliseconds of a step of rank 0", "bar", {
    labels: runs.map((run) => run.label),
    datasets: [...TIMES.map(([name, label], i) => bar(label, runs.map((run) => ms(run, name)), i, "step")),
      bar("hidden communication (beside the work)", runs.map((run) => ms(run, "comm_hidden")), 6, "hidden")],
  }, { stacked: true, unit: (value) => `${number(value)} ms` });
  part("time", "tables").append(table("Milliseconds; means of the steps after the first.",
    ["run", ...TIMES.map(([, label]) => label), "step", "hidden communication"],
    runs.map((run) => [run.label, ...[...TIMES.map(([name]) => name), "step", "comm_hidden"].map((name) => run.ms?.[name])])));
}

function throughput(runs) {
  draw("throughput", "Tokens a second", "bar", {
    labels: runs.map((run) => run.label), datasets: [bar("tokens/s", runs.map((run) => run.throughput.tokens_per_s), 0)],
  });
  const known = runs.some((run) => isNumber(run.throughput.mfu));
  part("throughput", "tables").append(table(
    known ? "Operations a token: 6 for each parameter, and attention's." :
      "MFU is left out: the logs do not say the machine's peak. Set log.peak_tflops to it before a run.",
    ["run", "tokens/s", "operations a token", ...(known ? ["MFU"] : [])],
    runs.map((run) => [run.label, run.throughput.tokens_per_s, run.throughput.flops_per_token,
      ...(known ? [{ value: run.throughput.mfu, text: percent(run.throughput.mfu) }] : [])])));
}

function loss(runs) {
  const points = (list) => list.map(([x, y]) => ({ x, y }));
  draw("loss", "Loss, nats a token", "line", {
    datasets: runs.flatMap((run, i) => [
      // A thinner line over a wider one: equal curves are both seen.
      { label: run.label, data: points(run.loss.points), borderColor: color(i), backgroundColor: color(i), borderWidth: 2 + 2 * (runs.length - 1 - i), pointRadius: run.loss.points.length === 1 ? 3 : 0, order: runs.length - i },
      ...(run.loss.evaluations.length ? [{ label: `${run.label}, validation`, data: points(run.loss.evaluations), borderColor: color(i), backgroundColor: color(i), borderWidth: 1, borderDash: [5, 4], pointRadius: 3 }] : []),
    ]),
  }, { unit: (value) => number(value, 3), x: { type: "linear", name: "step", ticks: { precision: 0, color: variable("--quiet") } } });
  const value = (point) => ({ value: point?.[1], text: number(point?.[1], 6) });
  part("loss", "tables").append(table("Nats a token. A long curve is drawn thinned out, with the lowest and highest of each stretch.",
    ["run", "steps", "first", "lowest", "of step", "last", "validation", "against the first run"],
    runs.map((run) => [run.label, run.loss.steps, value(run.loss.first), value(run.loss.lowest), run.loss.lowest?.[0], value(run.loss.last),
      value(run.loss.evaluations.at(-1)), verdict(run)])));
}

function strip(kind, begin, end, pieces) {
  const share = (size) => `${(100 * size) / Math.max(1, end - begin)}%`;
  return element("div", { class: `strip ${kind}` }, ...pieces.map(({ offset, numel, name, background }) => {
    const piece = element("span", { title: `${name}: ${number(numel)} elements` }, name);
    Object.assign(piece.style, { left: share(offset - begin), width: share(numel), background });
    return piece;
  }));
}

function layout(runs) {
  for (const sharing of groups(runs.map((run) => [`${run.layout.hash} ${run.ranks}`, run])).values()) {
    const { buckets, num_params, padding, num_buckets, num_parameters, listed_parameters } = sharing[0].layout;
    const title = sharing.map((run) => run.label).join(", ");
    const figure = element("div", {}, element("h3", {}, title),
      element("p", { class: "quiet" }, `${number(num_params)} elements and ${number(padding)} of padding in ${number(num_buckets)} buckets on ${number(sharing[0].ranks)} ranks.`
        + (sharing.some((run) => run.stage === 0) ? " In DDP every rank keeps everything; the owners come into play with ZeRO-1." : "")
        + (buckets.length > MOST_BUCKETS ? ` The first ${MOST_BUCKETS} buckets are drawn.` : "")
        + (buckets.length === 0 ? " The log holds no map." : "")));
    for (const bucket of buckets.slice(0, MOST_BUCKETS)) {
      const begin = Math.min(...bucket.slices.map(([, offset]) => offset));
      const end = Math.max(...bucket.slices.map(([, offset, numel]) => offset + numel));
      figure.append(element("div", { class: "bucket" }, `bucket ${number(bucket.bucket)}: ${number(end - begin)} elements`,
        strip("owners", begin, end, bucket.slices.map(([owner, offset, numel]) => ({ offset, numel, name: `rank ${owner}`, background: rankColor(owner) }))),
        strip("parameters", begin, end, bucket.parameters.map(({ name, offset, numel }) => ({ offset, numel, name, background: "" })))));
    }
    part("layout", "charts").append(figure);
    const owners = (owned) => owned.slice(0, 8).map(([rank, begin, numel]) => `rank ${rank}: ${number(begin)} … ${number(begin + numel - 1)}`).join("; ")
      + (owned.length > 8 ? `; and ${owned.length - 8} more` : "");
    const cut = listed_parameters < num_parameters ? ` The log lists the first ${number(listed_parameters)} of ${number(num_parameters)}.` : "";
    part("layout", "tables").append(folded(`Numbers of ${title}: ${number(listed_parameters)} parameters`,
      table(`Which elements of each parameter a rank owns.${cut}`, ["parameter", "bucket", "offset in the flat buffer", "elements", "owners"],
        buckets.flatMap((bucket) => bucket.parameters.map((one) => [one.name, bucket.bucket, one.offset, one.numel, owners(one.owned)])))));
  }
}

function setup(runs) {
  const section = (title, objects) => {
    const names = [...new Set(objects.flatMap((object) => Object.keys(object ?? {})))];
    const text = (value) => (value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value));
    const made = table(title, ["", ...runs.map((run) => run.label)], names.map((name) => [name, ...objects.map((object) => text(object?.[name]))]));
    made.querySelectorAll("tbody tr").forEach((row) => {
      const values = [...row.cells].slice(1).map((one) => one.textContent);
      row.classList.toggle("differs", values.some((value) => value !== values[0]));
    });
    return made;
  };
  part("setup", "tables").append(
    section("Machine", runs.map((run) => ({ ...run.machine, zerolab: run.version, commit: run.commit, log: run.source }))),
    section("Configuration", runs.map((run) => run.config)));
}

// With each element's place in its section, by which it is found again after a rebuild.
function each_place(selector, call) {
  document.querySelectorAll("section").forEach((section) =>
    section.querySelectorAll(selector).forEach((one, i) => call(one, `${section.id} ${selector} ${i}`)));
}

function render(data) {
  shown = data;
  const top = scrollY;
  const kept = new Map();
  each_place("details", (one, place) => kept.set(place, one.open));
  each_place(".scroll", (one, place) => kept.set(place, one.scrollLeft));
  charts.forEach((chart) => chart.destroy());
  charts = [];
  Chart.defaults.font.size = 0.75 * parseFloat(getComputedStyle(document.body).fontSize);
  document.querySelectorAll(".charts, .tables").forEach((place) => place.replaceChildren());
  for (const show of [overview, memory, timeline, communication, time, throughput, loss, layout, setup]) show(data.runs);
  each_place("details", (one, place) => { one.open = kept.get(place) ?? false; });
  each_place(".scroll", (one, place) => { one.scrollLeft = kept.get(place) ?? 0; });
  scrollTo(scrollX, top);
}

// The page of a run that is going on has no data yet: the program sends them, about once a second, whole each time.
function follow() {
  const state = document.querySelector("#state");
  const source = new EventSource("events");
  source.addEventListener("message", (event) => {
    const data = JSON.parse(event.data);
    const ended = data.live === "ended";
    render(data);
    state.textContent = ended ? "The run has ended." : "Live: the run is going on.";
    if (ended) source.close();
  });
  source.addEventListener("error", () => {
    state.textContent = source.readyState === EventSource.CLOSED ? "Not connected: reload the page."
      : "The connection is lost; trying again.";
  });
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const again = () => shown && render(shown);
dark.addEventListener("change", again);
document.querySelector("#theme").addEventListener("click", () => {
  const root = document.documentElement;
  root.dataset.theme = (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
  again();
});
const written = JSON.parse(document.querySelector("#data").textContent);
if (written.live) follow(); else render(written);
