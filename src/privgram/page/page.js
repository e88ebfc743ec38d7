import { INTERCEPT, Regression, read } from "./privgram.js";

// The page: what its reader chooses, and what follows. All names are text, never markup.

const at = (id) => document.getElementById(id);
const view = JSON.parse(at("view").textContent);
// Of a fit on a release the page has the numbers that Python found; of others what they follow from.
const numbers = (x) => (Array.isArray(x) ? x.map(numbers) : typeof x === "string" ? Number(x) : x);
const stated = view.stated && { ...view.stated, known: Object.fromEntries(
  Object.entries(view.stated.known).map(([name, x]) => [name, name === "refusal" ? x : numbers(x)])) };
const saved = stated ? Object.assign(new Regression(), stated) : read(at("saved").textContent);
const labels = new Map(view.labels), label = (name) => labels.get(name) ?? name;
const isRelease = typeof saved.regress === "function";

function make(tag, attributes = {}, ...parts) {
  const isDrawn = ["svg", "g", "line", "circle", "path", "text", "title"].includes(tag);
  const found = isDrawn ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  found.append(...parts);
  return found;
}

// Four digits; all of them are in the element.
const short = (x) => {
  const y = Number(x.toPrecision(4)), size = Math.abs(y);
  return size !== 0 && (size < 1e-4 || size >= 1e7) ? y.toExponential() : String(y);
};
const number = (x, more = false, text = short) => make("td", { class: more ? "number more" : "number" },
  Number.isFinite(x) ? make("data", { value: x }, text(x)) : Number.isNaN(x) ? "-" : "no end");
const chance = (p) => (p < 1e-4 ? "< 0.0001" : p.toFixed(4));

// A parameter's name, by the variables and levels that it is made of.
function named(name) {
  if (labels.has(name) || !saved.factors) return label(name);
  for (const [factor, levels] of saved.factors) {
    const level = levels.find((one) => `${factor}[${one}]` === name);
    if (level !== undefined) return `${label(factor)}[${label(level)}]`;
  }
  return name;
}

// Coefficients with whiskers, one a line; where an interval has no end the whisker is an arrow.
function plot(rows, caption) {
  const width = Math.max(at("result").clientWidth, 280), isNarrow = width < 560;
  const left = isNarrow ? 8 : Math.min(width * 0.34, 14 + 7.2 * Math.max(...rows.map((row) => row.name.length)));
  const step = isNarrow ? 44 : 28, top = 8, height = top + step * rows.length + 30, right = width - 12;
  const ends = rows.flatMap((row) => [row.low, row.high, row.estimate, 0]).filter(Number.isFinite);
  const spread = Math.max(...ends) - Math.min(...ends) || 1;
  const [low, high] = [Math.min(...ends) - 0.04 * spread, Math.max(...ends) + 0.04 * spread];
  const x = (value) => left + ((right - left) * (value - low)) / (high - low);
  const unit = 10 ** Math.floor(Math.log10(spread / 3)), size = [1, 2, 5, 10].find((k) => spread / (k * unit) <= 5) * unit;
  const shapes = [];
  for (let k = Math.ceil(low / size); k * size <= high; k++) {
    const place = x(k * size), anchor = place > right - 20 ? "end" : place < left + 20 ? "start" : "middle";
    shapes.push(make("line", { class: k ? "axis" : "zero", x1: place, x2: place, y1: top, y2: height - 22 }),
      make("text", { class: "tick", x: place, y: height - 6, "text-anchor": anchor }, short(k * size)));
  }
  const most = Math.round((isNarrow ? width - 16 : left - 14) / 7.2);
  rows.forEach((row, k) => {
    const y = top + step * k + (isNarrow ? 30 : step / 2), isHidden = row.low <= 0 && row.high >= 0;
    const text = row.name.length > most ? `${row.name.slice(0, most - 1)}…` : row.name;
    const place = isNarrow ? { x: left, y: y - 12 } : { x: left - 10, y: y + 4, "text-anchor": "end" };
    const part = make("g", { class: isHidden ? "hidden" : "clear" }, make("title", {}, `${row.name}: ${short(row.estimate)}`));
    for (const [end, limit, sign] of [[row.low, left + 2, -1], [row.high, right, 1]]) {
      const isOpen = !Number.isFinite(end), stop = isOpen ? limit : x(end);
      part.append(make("line", { x1: x(row.estimate), x2: stop, y1: y, y2: y, "stroke-width": 2 }));
      const head = isOpen ? `M${stop} ${y}l${-8 * sign} -5v10z` : `M${stop} ${y - 5}v10`;
      part.append(make("path", { d: head, "stroke-width": 2, class: isOpen ? "open" : "end" }));
    }
    part.append(make("circle", { cx: x(row.estimate), cy: y, r: 4 }));
    shapes.push(part, make("text", place, text));
  });
  const clear = rows.filter((row) => !(row.low <= 0 && row.high >= 0)).length;
  const words = `Coefficients of ${rows.length} features with intervals; ${clear} do not hold zero. The table has the numbers.`;
  const svg = make("svg", { role: "img", "aria-label": words, viewBox: `0 0 ${width} ${height}` }, ...shapes);
  return make("figure", {}, svg, make("figcaption", { class: "soft" }, caption));
}

// The whole answer: a picture and a table, or why there is none.
function show(fit, level, groups, notes) {
  const percent = `${Math.round(100 * level)} %`, isKnown = fit.refusal === null, found = [];
  const { names, coefficients } = fit;
  if (!coefficients.every(Number.isFinite)) {
    at("result").replaceChildren(make("p", { class: "warning" }, `No answer: ${fit.refusal}.`));
    return;
  }
  const ends = isKnown ? fit.confint(level) : [], stderr = isKnown ? fit.stderr : [], p = isKnown ? fit.pvalues : [];
  const deviations = view.deviations ?? {}, features = names.flatMap((name, k) => (name === INTERCEPT ? [] : [k]));
  const isScaled = features.length > 0 && features.every((k) => deviations[names[k]] > 0);
  if (isKnown && features.length) {
    const times = (k) => (isScaled ? deviations[names[k]] : 1);
    const caption = `Change ${isScaled ? "per standard deviation" : "per unit"} of each feature, with ${percent} intervals. ` +
      `Grey: the interval holds zero. ${isScaled ? "The table is per unit." : ""}`;
    found.push(plot(features.map((k) => ({ name: named(names[k]), estimate: times(k) * coefficients[k],
      low: times(k) * ends[k][0], high: times(k) * ends[k][1] })), caption));
  }
  const heads = ["feature", "coefficient", ...(isKnown ? ["std err", `${percent} from`, "to", "P"] : [])];
  const isMore = (k) => k === 2 || k === 5;
  const head = heads.map((text, k) => make("th", { scope: "col", class: k ? `number${isMore(k) ? " more" : ""}` : "" }, text));
  const body = names.flatMap((name, k) => {
    const row = make("tr", {}, make("th", { scope: "row" }, named(name)), number(coefficients[k]));
    if (isKnown) row.append(number(stderr[k], true), number(ends[k][0]), number(ends[k][1]), number(p[k], true, chance));
    const group = groups.get(name);
    const line = group && make("tr", {}, make("th", { scope: "rowgroup", class: "group", colspan: heads.length }, group));
    return line ? [line, row] : [row];
  });
  const table = make("table", { id: "coefficients" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
  found.push(make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Coefficients" }, table));
  if (!isKnown) notes.unshift(`There are no standard errors: ${fit.refusal}.`);
  found.push(...notes.map((text) => make("p", { class: "soft" }, text)));
  at("result").replaceChildren(...found);
}

const quoted = (text) => JSON.stringify(text).replace(/[\u007f-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
function say(lines) {
  at("code").textContent = ["import privgram as pg", "", `saved = pg.load(${quoted(view.load ?? "saved.json")})`, ...lines].join("\n");
}

function answer() {
  const target = at("target").value, level = Number(at("level").value), intercept = at("intercept").checked;
  const boxes = [...at("features").querySelectorAll("input")];
  const factor = saved.factors.size && [...saved.factors].find(([name, of]) => of.some((one) => `${name}[${one}]` === target));
  const isOwn = (box) => box.value === target || (factor && box.value === factor[0]);
  for (const box of boxes) box.closest("span").hidden = isOwn(box);
  const features = boxes.filter((box) => box.checked && !isOwn(box)).map((box) => box.value);
  const reference = Object.fromEntries([...at("features").querySelectorAll("select")].map((one) => [one.name, one.value]));
  const groups = new Map(), used = features.filter((name) => saved.factors.has(name));
  const isWhole = !intercept || !saved.everyOne.length; // then all levels of the first factor are there
  for (const name of used.slice(isWhole ? 1 : 0)) {
    const first = saved.factors.get(name).find((one) => one !== reference[name]);
    groups.set(`${name}[${first}]`, `${label(name)}: differences from ${label(reference[name])}`);
  }
  const list = features.map(label).join(", ") || "nothing";
  const left = used.filter((name) => reference[name] !== saved.factors.get(name)[0]);
  const options = [intercept ? "" : ", intercept=False",
    left.length ? `, reference={${left.map((name) => `${quoted(name)}: ${quoted(reference[name])}`).join(", ")}}` : ""].join("");
  say([`fit = saved.regress(${quoted(target)}, [${features.map(quoted).join(", ")}]${options})`, "print(fit.summary())"]);
  at("fitted").textContent = ` ${named(target)} was regressed on ${list}.`;
  try {
    const fit = saved.regress(target, features, { intercept, reference });
    const rows = saved.rows === null ? "" : `, ${Math.round(saved.rows).toLocaleString("en")} rows`;
    at("status").textContent = `${named(target)} by ${list}${rows}.`;
    show(fit, level, groups, [...view.notes]);
  } catch (problem) {
    at("status").textContent = "";
    at("result").replaceChildren(make("p", { class: "warning" }, `No answer: ${problem.message}.`));
  }
}

function build() {
  const isLevel = new Set([...saved.factors].flatMap(([name, of]) => of.map((one) => `${name}[${one}]`)));
  const single = saved.names.filter((name, i) => name !== "intercept" && saved.center[i] !== null);
  for (const name of [...single.filter((one) => !isLevel.has(one)), ...single.filter((one) => isLevel.has(one))]) {
    at("target").append(make("option", { value: name }, named(name)));
  }
  at("target").value = view.target;
  for (const name of saved.terms) {
    const box = make("input", { type: "checkbox", value: name });
    box.checked = true;
    const part = make("span", {}, make("label", {}, box, label(name)));
    if (saved.factors.has(name)) {
      const choice = make("select", { name, "aria-label": `${label(name)} compared with` });
      choice.append(...saved.factors.get(name).map((one) => make("option", { value: one }, `vs ${label(one)}`)));
      part.append(choice);
    }
    at("features").append(part);
  }
  at("constant").hidden = !saved.everyOne.length;
  at("intercept").checked = saved.everyOne.length > 0;
  const all = (isOn) => () => {
    for (const box of at("features").querySelectorAll("input")) box.checked = isOn;
    answer();
  };
  at("all").addEventListener("click", all(true));
  at("none").addEventListener("click", all(false));
  at("builder").addEventListener("change", answer);
  at("builder").addEventListener("submit", (event) => event.preventDefault());
}

function fitted() {
  say(["print(saved.summary())"]);
  const what = { binomial: "Changes of the log odds.", poisson: "Changes of the logarithm of the mean." }[saved.family];
  at("status").textContent = `${Math.round(saved.n_rows).toLocaleString("en")} rows.`;
  show(saved, 0.95, new Map(), [...(what ? [what] : []), ...view.compared]);
}

at("copy").addEventListener("click", async () => {
  const text = at("methods").textContent;
  try {
    await navigator.clipboard.writeText(text);
    at("copied").textContent = "Copied.";
  } catch {
    getSelection().selectAllChildren(at("methods"));
    at("copied").textContent = "Selected: press Ctrl+C.";
  }
});

if (isRelease) build();
const draw = isRelease ? answer : fitted;
draw();
let before = at("result").clientWidth;
addEventListener("resize", () => {
  if (before !== at("result").clientWidth) draw();
  before = at("result").clientWidth;
});
performance.mark("answered");
