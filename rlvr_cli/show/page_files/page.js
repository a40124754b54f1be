"use strict";
// Text from models reaches the page only as textContent.
const DATA = JSON.parse(document.getElementById("data").textContent);
const COLORS = DATA.colors;
const ROW = 28;
const $ = (id) => document.getElementById(id);
const make = (tag, text, name, ...children) => {
  const found = document.createElement(tag);
  if (text !== undefined && text !== null) found.textContent = text;
  if (name) found.className = name;
  found.append(...children);
  return found;
};
const number = (value) => (value === null || value === undefined ? "-" : Number(value.toPrecision(4)).toString());
const table = (lines) => make("div", null, "scroll", make("table", null, "", ...lines.map((line, at) =>
  make("tr", null, "", ...line.map((cell) => make(at ? "td" : "th", cell))))));

// Curves: runs over each other, with hover and zoom (drag; a double click goes back).
const hidden = new Set();
const plots = [];
const tint = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// A share's axis has the range of its values, and stays within 0 and 1. That of stacked shares is the whole.
const within = ([least, most]) => (_, low, high) => {
  const free = 0.05 * (high - low || 1);
  return [Math.max(least, low - free), Math.min(most, high + free)];
};
function plot(parent, title, note, steps, series, limits, isWhole) {
  const box = make("div", null, "chart", make("h3", title), make("p", note));
  parent.append(box);
  const axis = { stroke: () => tint("--fg"), grid: { stroke: () => tint("--line"), width: 1 }, ticks: { show: false } };
  const inside = limits && series.every((one) => one.values.every((value) => !(value < limits[0] || value > limits[1])));
  const made = new uPlot({
    width: Math.max(200, box.clientWidth), height: 190, scales: { x: { time: false }, y: inside ? { range: isWhole ? limits : within(limits) } : {} },
    axes: [{ ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000] }, { ...axis, size: 56 }],
    series: [{ label: "step" }, ...series.map((one) => ({ value: (_, value) => number(value), spanGaps: true, ...one.style, label: one.label }))],
  }, [steps, ...series.map((one) => one.values)], box);
  plots.push({ box, made, runs: series.map((one) => one.run) });
}
function curves() {
  const steps = [...new Set(DATA.runs.flatMap((run) => run.metrics.step || []))].sort((a, b) => a - b);
  const aligned = (run, key) => {
    const at = new Map((run.metrics.step || []).map((step, place) => [step, run.metrics[key][place]]));
    return steps.map((step) => at.get(step) ?? null);
  };
  let drawn = 0;
  const sets = Object.keys(DATA.glossary).filter((key) => key.startsWith("held_out_pass@1"));
  if (sets.length > 1) {
    const lines = DATA.runs.flatMap((run, place) => sets.flatMap((set, color) => [set, set.replace("pass@1", "cons@k")].filter((key) => run.metrics[key]).map((key, isDashed) => ({
      label: `${DATA.runs.length > 1 ? `${run.name} ` : ""}${key.replace("held_out_", "").replace("/", " ")}`, run: place, values: aligned(run, key),
      style: { stroke: COLORS[color % COLORS.length], width: 2, dash: isDashed ? [6, 4] : [], points: { show: true } },
    }))));
    plot($(drawn++ < 6 ? "charts" : "more"), "held-out sets", "pass@1 of each set, and dashed its cons@k. The first set has no name.", steps, lines, [0, 1]);
  }
  for (const [key, note] of Object.entries(DATA.glossary)) {
    const having = DATA.runs.map((run, place) => [run, place]).filter(([run]) => (run.metrics[key] || []).some((one) => one !== null));
    if (!having.length) continue;
    const ends = [key.replace("pass@1", "pass@1_low"), key.replace("pass@1", "pass@1_high")];
    const lines = having.flatMap(([run, place]) => [key, ...ends].filter((one, at) => run.metrics[one] && (!at || one !== key)).map((one, at) => ({
      label: run.name + ["", " 95 % from", " to"][at], run: place, values: aligned(run, one),
      style: { stroke: COLORS[DATA.runs[place].color % COLORS.length], width: at ? 0.5 : 2, points: { show: !at && (key.startsWith("held_out") || steps.length < 3) } },
    })));
    plot($(drawn++ < 6 ? "charts" : "more"), key, note, steps, lines, DATA.limits[key]);
  }
  DATA.runs.forEach((run, place) => {
    if (!run.fates) return;
    const names = Object.keys(run.fates.shares);
    const sums = names.map((_, at) => run.fates.step.map((_, step) => names.slice(0, at + 1).reduce((sum, name) => sum + run.fates.shares[name][step], 0)));
    plot($("fates"), `where the tokens of ${run.name} went`, "Share of the sampled tokens, stacked: dropped groups are all right or all wrong, so that nothing sets their responses apart.",
      run.fates.step, names.map((name, at) => ({ label: name, run: place, values: sums[at], style: { stroke: COLORS[DATA.fates.indexOf(name)], points: { show: false }, fill: COLORS[DATA.fates.indexOf(name)] + "c0", value: (_, __, ___, step) => (step === null || step === undefined ? "-" : number(run.fates.shares[name][step])) } })).reverse(), [0, 1], true);
  });
}
function sized() { for (const { box, made } of plots) if (box.clientWidth) made.setSize({ width: box.clientWidth, height: 190 }); }
function legend() {
  for (const arm of new Set(DATA.runs.map((run) => run.arm))) {
    const places = DATA.runs.flatMap((run, place) => (run.arm === arm ? [place] : []));
    const tick = Object.assign(make("input"), { type: "checkbox", checked: true });
    const swatch = make("b", "▬");
    swatch.style.color = COLORS[DATA.runs[places[0]].color % COLORS.length];
    tick.addEventListener("change", () => {
      for (const place of places) hidden[tick.checked ? "delete" : "add"](place);
      for (const { made, runs } of plots) runs.forEach((one, at) => places.includes(one) && made.setSeries(at + 1, { show: tick.checked }));
      filter();
    });
    $("runs").append(make("label", null, "", tick, swatch, make("span", places.length > 1 ? `${arm} (${places.length})` : arm)));
  }
}

// Responses: filters, search, order, and a list that holds only the rows in sight.
let shown = [];
let chosen = -1;
const group = (row) => DATA.groups[row.group];
const problem = (row) => DATA.problems[group(row).problem];
const steps = [...new Set(DATA.groups.map((one) => one.step))].sort((a, b) => a - b);
const ORDERS = {
  "as sampled": null,
  "wrong first": (a, b) => (a.verdict === "correct") - (b.verdict === "correct"),
  "longest first": (a, b) => b.n_tokens - a.n_tokens,
  "shortest first": (a, b) => a.n_tokens - b.n_tokens,
  "highest advantage": (a, b) => (b.advantage ?? -Infinity) - (a.advantage ?? -Infinity),
  "single tokens first": (a, b) => !a.tokens - !b.tokens,
  "lowest advantage": (a, b) => (a.advantage ?? Infinity) - (b.advantage ?? Infinity),
};
// Tokens: orange below, blue above, as strong as the figure is far from its middle.
const SHADES = {
  "log-probability": { figure: "logprob", strength: (value) => value / 5, legend: "orange: unlikely, fully at -5 nats and less" },
  ratio: { figure: "ratio", strength: (value) => Math.sign(value - 1) * Math.sqrt(Math.abs(Math.log(value)) / 0.25), legend: "blue: likelier than when sampled, orange: less likely, fully at a ratio of 1.28 or 0.78; 1 where no update came before" },
  advantage: { figure: "advantage", strength: (value) => value / 2, legend: "blue: made likelier, orange: less likely, fully at 2 or -2" },
  entropy: { figure: "entropy", strength: (value) => value / 2, legend: "blue: undecided, fully at 2 nats and more" },
};
function tokens(row, color) {
  const shade = SHADES[color], figures = row.tokens, values = figures[shade.figure];
  const spans = figures.text.map((piece, at) => {
    const span = make("span", piece, "token");
    if (!values) {
      span.title = "not passed by the update, since its advantages are 0: no figures";
      return span;
    }
    const strength = Math.max(-1, Math.min(1, shade.strength(values[at])));
    if (figures.clipped[at]) span.classList.add("clipped");
    span.style.backgroundColor = `rgba(${strength < 0 ? "224, 138, 30" : "47, 126, 216"}, ${(Math.abs(strength) * 0.6).toFixed(2)})`;
    span.title = Object.entries(SHADES).map(([name, { figure }]) => `${name} ${number(figures[figure][at])}`).join(", ") + (figures.clipped[at] ? ", clipped" : "");
    return span;
  });
  return figures.text.length < row.n_tokens ? [...spans, make("span", ` … (${figures.text.length} of ${row.n_tokens} tokens were kept)`, "thought")] : spans;
}
function filter() {
  const step = +$("step").value, verdict = $("verdict").value, field = $("field").value, words = $("search").value.toLowerCase();
  $("stepname").textContent = step ? `step ${steps[step - 1]}` : "all steps";
  shown = [];
  DATA.rows.forEach((row, at) => {
    if (hidden.has(group(row).run) || (step && group(row).step !== steps[step - 1]) || (verdict && row.verdict !== verdict)) return;
    if (field && !problem(row).fields.includes(field)) return;
    if (words && !`${row.response}\n${problem(row).id}\n${problem(row).problem}`.toLowerCase().includes(words)) return;
    shown.push(at);
  });
  const order = ORDERS[$("order").value];
  if (order) shown.sort((a, b) => order(DATA.rows[a], DATA.rows[b]) || a - b);
  $("count").textContent = `${shown.length.toLocaleString("en")} of ${DATA.rows.length.toLocaleString("en")} responses here`;
  $("list").scrollTop = 0;
  draw();
}
function draw() {
  const list = $("list"), first = Math.max(0, Math.floor(list.scrollTop / ROW) - 10);
  $("space").style.height = `${shown.length * ROW}px`;
  const rows = shown.slice(first, first + Math.ceil(list.clientHeight / ROW) + 20).map((at, place) => {
    const row = DATA.rows[at], { step, number: groupNumber } = group(row);
    const line = make("button", null, at === chosen ? "row on" : "row",
      make("span", step ? `step ${step} group ${groupNumber}` : problem(row).id), make("span", row.verdict, row.verdict), make("span", `${row.n_tokens} tokens`),
      make("span", row.advantage === null ? "" : `adv ${number(row.advantage)}`), make("span", row.response.slice(0, 300)));
    line.style.top = `${(first + place) * ROW}px`;
    line.addEventListener("click", () => open(at));
    return line;
  });
  $("space").replaceChildren(...rows);
}
function open(at) {
  chosen = at;
  if (at < 0) return;
  const color = $("color").value;
  const row = DATA.rows[at], { run, step, number: groupNumber, fate } = group(row), { id, problem: question, answer } = problem(row);
  const all = DATA.rows.filter((one) => one.group === row.group);
  const explained = "Underlined: the bound of the ratio was at work. Point at a token, or touch it, for its figures.";
  $("legend").textContent = color ? (all.some((one) => one.tokens) ? `${color}: ${SHADES[color].legend}. ${explained}` : 'No single tokens are kept of this group; the order "single tokens first" has some.') : "";
  $("detail").replaceChildren(
    make("h3", `${DATA.runs[run].name}${step ? `, step ${step}, group ${groupNumber}` : ""}: ${id}, gold ${answer}${fate ? `, ${fate}` : ""}`),
    make("pre", question),
    ...all.map((one) => {
      const end = one.response.lastIndexOf("</think>"), cut = end < 0 ? 0 : end + 8;
      return make("div", null, one === row ? "response on" : "response",
        make("div", `sample ${one.sample}: ${one.verdict} · ${one.reason} · reward ${number(one.reward)} · advantage ${number(one.advantage)} · ${one.n_tokens} tokens`, one.verdict),
        color && one.tokens ? make("pre", null, "", ...tokens(one, color)) : make("pre", null, "", make("span", one.response.slice(0, cut), "thought"), one.response.slice(cut)));
    }));
  draw();
}
function options(id, values, all) {
  $(id).append(...[[all, ""], ...values.map((one) => [one, one])].map(([name, value]) => Object.assign(make("option", name), { value })));
}

$("note").textContent = DATA.note;
$("tables").append(...DATA.tables.flatMap((lines) => [table(lines), make("p", " ")]));
$("glossary").append(...Object.entries(DATA.words).flatMap(([name, meaning]) => [make("dt", name), make("dd", meaning)]));
$("step").max = steps[0] ? steps.length : 0;
options("verdict", [...new Set(DATA.rows.map((row) => row.verdict))].sort(), "all verdicts");
options("field", [...new Set(DATA.problems.flatMap((one) => one.fields))].sort(new Intl.Collator("en", { numeric: true }).compare), "all problems");
$("order").append(...Object.keys(ORDERS).map((name) => make("option", name)));
options("color", Object.keys(SHADES), "no color of tokens");
$("color").hidden = !DATA.rows.some((row) => row.tokens);
$("color").addEventListener("input", () => open(chosen));
$("detail").addEventListener("click", (event) => { if (event.target.title) $("legend").textContent = `${event.target.textContent.trim()}: ${event.target.title}`; });
for (const id of ["step", "verdict", "field", "search", "order"]) $(id).addEventListener("input", filter);
$("list").addEventListener("scroll", draw);
addEventListener("resize", () => { sized(); draw(); });
document.querySelector("details").addEventListener("toggle", sized);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach(({ made }) => made.redraw()));
legend();
curves();
filter();
document.body.dataset.ready = "yes";
