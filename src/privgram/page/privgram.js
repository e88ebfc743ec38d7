// Regressions on what privgram saved as JSON, with standard errors, for browsers and node.
//   const fit = read(text).regress("log(wage)", ["age", "sex"], { reference: { sex: "m" } });
//   fit.coefficients; fit.stderr; fit.confint(0.95); fit.predict({ age: [40], sex: ["f"] });
// Numbers are those of privgram in Python, whose docs/theory/inference.md has the formulas.
export class RefusedError extends Error {} // the noise leaves no answer
export const INTERCEPT = "Intercept";
const ensure = (holds, problem, kind = Error) => { if (!holds) throw new kind(problem); };
// Standard errors end where noise over signal, or over the number of rows, is beyond these.
const [TRUSTED_NOISE, TRUSTED_COUNT] = [1 / 8, 1 / 4];
// Matrices are arrays of rows.
const range = (n) => [...Array(n).keys()];
const dot = (a, b) => { let x = 0; for (let i = 0; i < a.length; i++) x += a[i] * b[i]; return x; };
const apply = (a, v) => a.map((row) => dot(row, v));
const transposed = (a) => range(a[0].length).map((j) => a.map((row) => row[j]));
const times = (a, b, columns = transposed(b)) => a.map((row) => apply(columns, row));
const through = (frame, a) => times(times(frame, a), transposed(frame));
const squares = (a) => a.map((row) => apply(a, row));
const scaled = (v, x) => v.map((y) => y * x);
const sum = (v, w, x = 1) => v.map((y, i) => y + x * w[i]);
const plus = (a, b, x = 1) => a.map((row, i) => sum(row, b[i], x));
const outer = (v, w, x = 1) => v.map((y) => w.map((z) => x * y * z));
const unit = (n, i) => range(n).map((j) => +(i === j));
const identity = (n, x = 1) => range(n).map((i) => scaled(unit(n, i), x));
const diagonal = (a) => a.map((row, i) => row[i]);
const trace = (a) => diagonal(a).reduce((x, y) => x + y, 0);

// The inverse of the lower factor L of a symmetric matrix, whose own inverse is L^-T L^-1; null where
// it is not positive definite.
function rootOf(a) {
  const [lower, root] = [[], []];
  for (const [i, row] of a.entries()) {
    const found = Array(a.length).fill(0);
    for (let j = 0; j < i; j++) found[j] = (row[j] - dot(found, lower[j])) / lower[j][j];
    found[i] = Math.sqrt(row[i] - dot(found, found));
    if (!(found[i] > 0)) return null;
    lower.push(found);
    const rest = root.reduce((left, one, j) => sum(left, one, -found[j]), unit(a.length, i));
    root.push(scaled(rest, 1 / found[i]));
  }
  return root;
}
const inverse = (a, root = rootOf(a)) => squares(transposed(root));
// log Gamma(x + 1/2) - log Gamma(x), without the loss of a difference of large numbers.
function logGammaRatio(x) {
  if (x < 20) return logGammaRatio(x + 1) - Math.log1p(0.5 / x);
  const series = (y, z = y * y) => (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / z) / z) / z) / y;
  return (x - 0.5) * Math.log1p(0.5 / x) + Math.log(x + 0.5) / 2 - 0.5 + series(x + 0.5) - series(x);
}

// The probability that Student's variable is beyond +-t, by double exponential quadrature.
export function beyond(t, freedom) {
  if (!(t > 0)) return t <= 0 ? 1 : NaN;
  const df = Math.min(freedom, 1e300), scale = t > 1 ? (df / t + t) / (df + 1) : 1;
  const constant = logGammaRatio(df / 2) - Math.log(df) / 2, power = (df + 1) / 2;
  const part = (u, away = scale * Math.exp((Math.PI / 2) * Math.sinh(u)), x = t + away) =>
    away * Math.cosh(u) * Math.exp(constant - power * Math.log1p((x * x) / df));
  return range(257).reduce((x, i) => x + part(i / 32 - 4), 0) * (Math.sqrt(Math.PI) / 32);
}

// What Student's variable is within with the probability `level`.
export function quantileOf(level, df, q = 8, steps = 60) { // Newton on logarithms, where it is concave
  const p = beyond(q, df), slope = (beyond(q * (1 - 1e-5), df) - beyond(q * (1 + 1e-5), df)) / 2e-5;
  const change = (Math.log(p / (1 - level)) * p) / slope, next = q * Math.exp(change);
  return Math.abs(change) < 1e-15 || steps === 0 ? next : quantileOf(level, df, next, steps - 1);
}

// Laws of the noise N in a released matrix M: E[M] less the second moment; the covariance of X N v
// for rows X and a vector v; and the law of L M L'.
const NOT_ADDED = ["SketchLaw", "InverseWishartLaw", "InverseGaussianLaw", "ImageLaw"];
const gaussianOf = (law) => (law.base ? gaussianOf(law.base) : law);
function shiftOf(law, d) {
  if (law.law === "ImageLaw") return through(law.frame, shiftOf(law.base, law.frame[0].length));
  if (law.base) return shiftOf(law.base, d);
  const known = { GaussianLaw: law.added ?? 0, WishartLaw: law.scale * law.dof - (law.subtracted ?? 0),
    SketchLaw: law.regulariser, InverseWishartLaw: law.regulariser, EntryLaw: 0, MatrixLaplaceLaw: 0,
    InverseGaussianLaw: 0 };
  ensure(Object.hasOwn(known, law.law), `there is no law of noise ${law.law} in this version`);
  return identity(d, known[law.law]);
}

function covarianceOf(law, m, X, v) {
  const of = (metric, size, image, x) => plus(outer(image, image, x), metric, size);
  const pick = (row, at) => at.map((i) => row[i]), size = gaussianOf(law).std ** 2;
  switch (law.law) {
    case "GaussianLaw": return ofEntries(X, v, size, law.std_diagonal ** 2);
    case "MaskedLaw": return law.blocks.reduce((found, at) => plus(found,
      ofEntries(X.map((row) => pick(row, at)), pick(v, at), size, 0), -1), covarianceOf(law.base, m, X, v));
    case "TiedLaw": return law.ties.map((tie) => apply(X, apply(tie, v))).reduce((found, image) =>
      plus(found, outer(image, image), -2 * size), covarianceOf(law.base, m, X, v));
    case "EntryLaw": return through(X, law.variances.map((row, i) => row.map((x, j) =>
      (i === j ? dot(row, v.map((y) => y * y)) : x * v[i] * v[j]))));
    case "WishartLaw": case "MatrixLaplaceLaw": {
      const alike = (law.law === "WishartLaw" ? 1 : 2) * law.dof * law.scale ** 2;
      return of(squares(X), alike * dot(v, v), apply(X, v), alike);
    }
    case "SketchLaw": case "InverseWishartLaw": { // the latter's are infinite for too few degrees
      const k = law.dof - m.length, whole = k > 3 ? k * (k - 3) : 0, mv = apply(m, v);
      const [a, b] = law.rows ? [1 / law.rows, 1 / law.rows] : [(k - 1) / whole, (k + 1) / whole];
      return of(through(X, m), a * dot(v, mv), apply(X, mv), b);
    }
    case "InverseGaussianLaw": return ofEntries(times(X, m), apply(m, v), size, law.std_diagonal ** 2);
    default: { // ImageLaw
      const back = transposed(law.frame), isWide = law.frame.length <= back.length;
      law.back ??= NOT_ADDED.includes(law.base.law) && // an estimate of E[M] before the image
        (isWide ? times(back, inverse(squares(law.frame))) : times(inverse(squares(back)), back));
      return covarianceOf(law.base, law.back && through(law.back, m), times(X, law.frame), apply(back, v));
    }
  }
}
// Of entries with one variance off the diagonal, and another on it.
function ofEntries(X, v, off, on) {
  const image = apply(X, v), found = plus(outer(image, image, off), squares(X), off * dot(v, v));
  return plus(found, squares(X.map((row) => row.map((x, i) => x * v[i]))), on - 2 * off);
}

function imageOf(law, frame) {
  if (law.law === "ImageLaw") return imageOf(law.base, times(frame, law.frame));
  const fewer = frame[0].length - frame.length, hasNone = law.law === "InverseGaussianLaw" && fewer > 0;
  ensure(!hasNone, "noise on the inverse has a law only if no column is left out: name all of them");
  if (law.law !== "InverseWishartLaw") return { law: "ImageLaw", base: law, frame };
  // Of fewer columns it is one again, in an orthonormal basis of the rows.
  const basis = times(rootOf(squares(frame)), frame);
  return { law: "ImageLaw", base: { ...law, dof: law.dof - fewer }, frame: times(frame, transposed(basis)) };
}

// The law as a file has it, with the ties as symmetric matrices that are orthonormal as equations.
function prepared(law, d) {
  const found = { ...law, ...(law.base && { base: prepared(law.base, law.frame?.[0].length ?? d) }) };
  if (law.law !== "TiedLaw") return found;
  const isNothing = (i, j) => i !== j && law.base.blocks?.some((at) => at.includes(i) && at.includes(j));
  const forms = law.ties.map((tie) => tie.filter(([i, j]) => !isNothing(i, j)).reduce((form, [i, j, c]) => {
    for (const at of [i * d + j, j * d + i]) form[at] += c / 2;
    return form;
  }, Array(d * d).fill(0)));
  const least = 1e-12 * Math.max(...forms.map((form) => dot(form, form))), basis = [];
  for (let form of forms) {
    for (const one of [...basis, ...basis]) form = sum(form, one, -dot(one, form)); // twice is enough
    if (dot(form, form) > least) basis.push(scaled(form, 1 / Math.sqrt(dot(form, form))));
  }
  return { ...found, ties: basis.map((one) => range(d).map((i) => one.slice(i * d, (i + 1) * d))) };
}

// A variable's levels as texts, the one for all other values last; none for one without.
function levelsOf(given) {
  const levels = Array.isArray(given) && typeof given[0] === "string" ? given : given?.levels ?? [];
  const isExact = levels.every((one) => typeof one === "string" || Number.isSafeInteger(one));
  ensure(isExact, "levels of 2^53 and beyond are not read here");
  return [...levels.map(String), ...(given?.other ? ["other"] : [])];
}
const levelName = (variable, level) => `${variable}[${level}]`;
// A feature of new rows, in own units and within the public bounds.
const SECONDS = { years: 31556952, weeks: 604800, days: 86400, hours: 3600, minutes: 60, seconds: 1 };
function featureOf(bounds, name, table) {
  const values = (variable) => ensure(Object.hasOwn(table, variable), `no column ${variable} in the new rows`)
    ?? [...table[variable]].map((x) => x ?? NaN); // null is no zero, and no 1970
  const clamped = (x, [low, high]) => Math.min(Math.max(x, low), high);
  const isPair = (one) => typeof one?.[0] === "number", given = Object.hasOwn(bounds, name) && bounds[name];
  if (given?.dates) {
    const utc = (x) => (/\d[T ].*\d$/.test(x) ? `${x.replace(" ", "T")}Z` : x);
    const seconds = (x) => (x instanceof Date ? x : new Date(utc(x))) / 1000;
    const ends = given.dates.map(seconds);
    return values(name).map((x) => (clamped(seconds(x), ends) - ends[0]) / SECONDS[given.unit ?? "days"]);
  }
  for (const [variable, of] of Object.entries(bounds)) {
    const isLog = of.log && name === `log(${variable})`;
    if (isLog) return values(variable).map((x) => Math.log(clamped(x, of.log)));
    const levels = levelsOf(of), level = levels.findIndex((one) => levelName(variable, one) === name);
    if (level < 0) continue;
    const rest = of.other ? levels.length - 1 : NaN; // no number where a value is none of the levels
    return values(variable).map((x) => {
      const place = levels.indexOf(String(x)), found = place < 0 || place === rest ? rest : place;
      return Number.isNaN(x) || Number.isNaN(found) ? NaN : +(found === level);
    });
  }
  const isPlain = Object.values(bounds).every(isPair);
  return values(name).map((x) => (isPair(given) && !isPlain ? clamped(x, given) : Number(x)));
}
const MEANS = { gaussian: (x) => x, poisson: Math.exp, binomial: (x) => 1 / (1 + Math.exp(-x)) };

// What all results have: estimates of contrasts of the parameters, and what follows.
export class Regression {
  family = "gaussian";
  get inference() { // refused where no interval has an end
    const found = (this.known ??= this.contrasts(identity(this.names.length)));
    const isOpen = found.refusal === null && intervalsOf(found, 0.95).flat().every((x) => !Number.isFinite(x));
    return isOpen ? (this.known = refused(this.names.length, "the privacy noise hides every coefficient")) : found;
  }
  get refusal() { return this.inference.refusal; }
  get coefficients() { // of the rows at hand where only the number of rows is not known
    const found = this.inference, isKnown = found.refusal === null || found.isBeyond;
    return (isKnown ? found : this.contrasts(identity(this.names.length), "sample")).estimate;
  }
  get covariance() { return this.inference.covariance; }
  get stderr() { return diagonal(this.covariance).map(Math.sqrt); }
  get pvalues() { return this.statistics.map((z) => beyond(Math.abs(z), this.inference.df)); }
  get statistics() {
    const { estimate, slope, curvature } = this.inference;
    return this.stderr.map((size, k) => {
      const away = -estimate[k] / size, variance = 1 + 2 * slope[k] * away + curvature[k] * away * away;
      return -away / Math.sqrt(Math.max(variance, 2.2250738585072014e-308));
    });
  }
  // Intervals of the population's coefficients, or of those that the rows at hand have ("sample").
  confint(level = 0.95, estimand = "population") {
    ensure(level >= 0.5 && level < 1, "level is a number from 0.5 to below 1");
    const isSample = estimand === "sample", all = identity(this.names.length);
    return intervalsOf(isSample ? this.contrasts(all, estimand) : this.inference, level);
  }
  // Means of the target for new rows: arrays by variable.
  predict(table) {
    const { coefficients, refusal } = this, isKnown = coefficients.every(Number.isFinite);
    ensure(isKnown, `there is nothing to predict by: ${refusal}`, RefusedError);
    return apply(this.rows(table), coefficients).map(MEANS[this.family]);
  }
  // The same with intervals; of linear regressions with standard errors and for new observations.
  prediction(table, level = 0.95) {
    ensure(this.refusal === null, `there is no inference: ${this.refusal}`, RefusedError);
    const found = this.contrasts(this.rows(table)), interval = intervalsOf(found, level);
    const mean = found.estimate.map(MEANS[this.family]);
    const ofMeans = { mean, interval: interval.map((ends) => ends.map(MEANS[this.family])) };
    if (this.family !== "gaussian") return ofMeans;
    // Nothing is known of observations where the noise hides the residuals.
    const around = this.scale > 0 ? quantileOf(level, this.dfResid) * Math.sqrt(this.scale) : NaN;
    const observed = interval.map((ends, i) => ends.map((end, side) =>
      mean[i] + (2 * side - 1) * Math.hypot(end - mean[i], around)));
    return { ...ofMeans, observed, stderr: diagonal(found.covariance).map(Math.sqrt) };
  }
  rows(table) {
    const bounds = this.columns?.bounds ?? {}, size = Object.values(table)[0]?.length ?? 1;
    const last = this.names.length - 1; // a feature may have the name too
    return transposed(this.names.map((name, k) => (name === INTERCEPT && k === last && this.isCentred !== false
      ? Array(size).fill(1) : featureOf(bounds, name, table))));
  }
}

const refused = (size, refusal, isBeyond = true, nothing = Array(size).fill(NaN)) => ({ refusal, isBeyond,
  df: NaN, estimate: nothing, covariance: identity(size, NaN), slope: nothing, curvature: nothing });

// Fieller's intervals: without ends where the noise is too large beside the signal.
function intervalsOf(found, level) {
  const quantile = found.refusal === null ? quantileOf(level, found.df) : NaN, square = quantile ** 2;
  return diagonal(found.covariance).map((size, k) => {
    const slope = found.slope[k], slack = 1 - square * found.curvature[k];
    if (slack <= 0 || size === Infinity) return [-Infinity, Infinity];
    const half = (quantile * Math.sqrt(Math.max(square * slope ** 2 + slack, 0))) / slack;
    return [-half, half].map((x) => found.estimate[k] + Math.sqrt(size) * ((square * slope) / slack + x));
  });
}

// A regression that was saved by itself.
class Fit extends Regression {
  constructor({ refusal, derived, ...saved }) { Object.assign(super(), saved, derived, { why: refusal, dfResid: derived.df_resid }); }

  contrasts(matrix, estimand = "population") {
    if (this.why !== null) return refused(matrix.length, this.why);
    const isSample = estimand === "sample", known = isSample ? this.noise : plus(this.noise, this.sampling);
    const rows = times(matrix, this.transform), covariance = through(rows, plus(known, this.unidentified));
    const hidden = diagonal(through(rows, this.unidentified)), seen = diagonal(through(rows, known));
    for (const [k, x] of hidden.entries()) if (x > seen[k]) covariance[k][k] = Infinity; // open
    const estimate = sum(apply(rows, this.solution), apply(matrix, this.offset)), slope = scaled(hidden, 0);
    const why = "it is for predictions alone: directions that the noise hides are shrunk";
    if (this.parameters.purpose === "prediction") return { ...refused(rows.length, why), estimate };
    const { clusters } = this.parameters, ofRows = this.family === "gaussian" ? this.dfResid : Infinity;
    return { refusal: null, estimate, covariance, slope, curvature: slope,
      df: isSample ? Infinity : clusters ? clusters.seen - 1 : ofRows };
  }
}

// The matrix of a file, whose zeros between columns of one block are not in it.
function unpacked({ names, matrix, zeros }) {
  if (!zeros) return matrix;
  const block = names.map((_, i) => zeros.findIndex((of) => of.includes(i)));
  let next = 0;
  return names.map((_, i) => names.map((_, j) => i !== j && block[i] >= 0 && block[i] === block[j] ? 0 : matrix[next++]));
}

// A released second moment.
class Release {
  constructor(saved) {
    const { names, columns } = saved, noise = prepared(saved.noise, names.length);
    Object.assign(this, saved, saved.derived, { noise, matrix: unpacked(saved), weight: columns?.row_weights });
    const stored = (name, given) => levelsOf(given).filter((one) => names.includes(levelName(name, one)));
    this.factors = new Map(Object.entries(columns?.bounds ?? {})
      .map(([name, given]) => [name, stored(name, given)]).filter(([, of]) => of.length)
      .sort(([a, [x]], [b, [y]]) => names.indexOf(levelName(a, x)) - names.indexOf(levelName(b, y))));
    const sums = [...this.factors].map(([name, of]) =>
      names.map((one) => +of.some((level) => levelName(name, level) === one)));
    this.everyOne = this.ones ? [this.ones, ...sums] : []; // what is 1 in every row
  }
  place(name) {
    return ensure(this.names.includes(name), `there is no column ${name}`) ?? this.names.indexOf(name);
  }
  // What a regression may name: columns, but for products and powers, and factors.
  get terms() {
    const levels = new Set([...this.factors].flatMap(([name, of]) => of.map((one) => levelName(name, one))));
    const isAlone = (name, i) => !levels.has(name) && name !== "intercept" && this.center[i] !== null;
    return [...this.names.filter(isAlone), ...this.factors.keys()];
  }
  // Of a factor all levels but the first, or that of `reference`; beside no constant all of the first.
  regress(target, features = null, { intercept = true, reference = {} } = {}) {
    const isOwn = (name) => this.factors.get(name)?.some((one) => levelName(name, one) === target);
    const asked = (features ?? this.terms).filter((name) => features || (name !== target && !isOwn(name)));
    const isCentred = intercept && this.everyOne.length > 0 && this.columns?.intercept !== false;
    const factors = asked.filter((name) => !this.names.includes(name) && this.factors.has(name));
    const chosen = asked.flatMap((name) => {
      const levels = factors.includes(name) ? this.factors.get(name) : [];
      if (!levels.length) return name === "intercept" ? [] : [this.place(name)];
      const leftOut = Object.hasOwn(reference, name) ? reference[name] : levels[0];
      ensure(levels.includes(leftOut), `${name} has no level ${leftOut}`);
      const kept = levels.filter((one) => one !== leftOut || (!isCentred && name === factors[0]));
      return kept.map((one) => this.place(levelName(name, one)));
    });
    return new LeastSquares(this, target, chosen, isCentred);
  }
}

// Least squares on a release.
class LeastSquares extends Regression {
  constructor(release, target, chosen, isCentred) {
    super();
    const { center, half_width: half, everyOne: every, names, columns } = release;
    const p = chosen.length, goal = release.place(target), at = [...chosen, goal];
    const isHeld = every.some((one) => one.every((x, i) => !x || chosen.includes(i))) && isCentred;
    ensure(!chosen.includes(goal), "the target is among the features");
    ensure(at.every((i) => center[i] !== null), "products and powers are not read here");
    ensure(!isHeld, "these are all levels of a factor: leave one out");
    ensure(p || isCentred, "there is no feature to regress on");
    ensure(every.length || at.every((i) => center[i] === 0), "a fit through the origin takes an intercept");
    // Columns by their half-widths, beside ones; or through the origin, by their largest size.
    const units = at.map((i) => half[i] + (isCentred ? 0 : Math.abs(center[i])));
    const moves = !isCentred && every.length && !release.privacy_unit?.fixed_effects;
    const frame = at.map((i, k) => scaled(unit(names.length, i), half[i] / units[k]))
      .map((row, k) => (moves ? sum(row, every[0], center[at[k]] / units[k]) : row));
    const transform = range(p).map((k) => scaled(unit(p, k), units[p] / units[k]));
    const offset = Array(p).fill(0), own = chosen.map((i) => names[i]);
    if (isCentred) {
      own.push(INTERCEPT);
      frame.splice(p, 0, every[0]);
      transform.forEach((row) => row.push(0));
      transform.push([...chosen.map((i) => (-half[goal] * center[i]) / half[i]), half[goal]]);
      offset.push(center[goal]);
    }
    Object.assign(this, { release, target, columns, names: own, frame, transform, offset, isCentred });
    this.solve(units[p] ** 2 * (release.weight ? Math.max(...columns.bounds[release.weight]) : 1));
  }
  solve(unitSquared) {
    const { release, frame } = this, p = frame.length - 1, all = identity(p + 1), kept = all.slice(0, p);
    const law = imageOf(release.noise, frame), shifted = through(frame, release.matrix);
    const matrix = plus(shifted, shiftOf(law, p + 1), -1), gram = through(kept, matrix);
    this.dfResid = (release.rows ?? NaN) - p;
    const root = rootOf(through(kept, shifted)) && rootOf(gram);
    if (!root) return; // it is refused
    const inverted = inverse(gram, root), theta = apply(inverted, matrix.slice(0, p).map((row) => row[p]));
    const v = [...scaled(theta, -1), 1], noise = covarianceOf(law, shifted, kept, v);
    const squared = dot(v, apply(matrix, v)) + trace(times(inverted, noise));
    // E[N S^-1 N], by a row of the root of S^-1 at a time.
    const second = root.map((row) => covarianceOf(law, shifted, all, [...row, 0]))
      .reduce((a, b) => plus(a, b)).slice(0, p);
    Object.assign(this, { law, shifted, gram, inverse: inverted, theta, v, noise, second });
    this.variance = Math.max(squared, 0) / this.dfResid;
    this.scale = this.variance * unitSquared;
  }
  contrasts(matrix, estimand = "population") {
    const [why, isBeyond] = this.whyRefused(estimand);
    if (why) return refused(matrix.length, why, isBeyond);
    const { v, law, shifted } = this, isSample = estimand === "sample", [slope, curvature] = [[], []];
    const meat = isSample ? this.noise : plus(this.noise, this.gram, this.variance);
    const transform = times(matrix, this.transform), bread = times(transform, this.inverse);
    const covariance = through(bread, meat), pulled = times(times(bread, meat), this.inverse);
    const bias = apply(bread, apply(this.second, v)), theta = sum(apply(transform, this.theta), bias);
    const estimate = sum(theta, apply(matrix, this.offset)).map((x, k) => {
      const stderr = Math.sqrt(covariance[k][k]), size = stderr > 0 ? stderr : 1;
      const moved = [...scaled(pulled[k], -1 / size), 0], a = [[...scaled(bread[k], 1 / size), 0]];
      const at = (w) => covarianceOf(law, shifted, a, w)[0][0], away = at(moved);
      curvature.push(away);
      slope.push((at(sum(moved, v)) - at(v) - away) / 2);
      return x + stderr * slope[k];
    });
    return { refusal: null, estimate, covariance, slope, curvature, df: isSample ? Infinity : this.dfResid };
  }
  // Why there is no inference, or null; and whether more than the number of rows is missing.
  whyRefused(estimand) {
    const { release, second, frame, columns } = this, p = frame.length - 1, [ones] = release.everyOne;
    const noise = (f, g) => Math.sqrt(covarianceOf(release.noise, release.matrix, [f], g)[0][0]);
    if (ones && columns) {
      const total = dot(frame[p], apply(release.matrix, ones)), sign = total < 0 ? -1 : 1;
      const count = through([ones], plus(release.matrix, shiftOf(release.noise, ones.length), -1))[0][0];
      const isPinned = count - sign * total <= 3 * noise(ones, sum(ones, frame[p], -sign)) && count >= 20 * noise(ones, ones);
      if (isPinned) return ["all values of the target seem to be clamped to one of its bounds", true];
    }
    const { n_rows: n, n_units: units, rows, parameters } = release, isSample = estimand === "sample";
    const counted = rows + (release.privacy_unit?.fixed_effects ? units ?? 0 : 0);
    const isCounted = ones && !release.weight && (columns?.missing === "drop" || n === null);
    const size = second && trace(times(this.inverse, second.map((row) => row.slice(0, p)))) / p;
    const isClear = !isCounted || noise(ones, ones) <= TRUSTED_COUNT * counted;
    return [
      [!parameters.moved, "the repair moved the released matrix by more than its noise", true],
      [second, "the privacy noise exceeds the signal in some direction of the features: with fewer there may be an answer", true],
      [size <= TRUSTED_NOISE, "the privacy noise is too large beside the signal: with fewer features there may be an answer", true],
      [isSample || rows !== null, "the number of rows is private, and no intercept counts them", false],
      [isSample || isClear, "the privacy noise hides the number of rows", false],
      [isSample || this.dfResid > 0, "there are too few rows: take fewer features or more rows", false],
    ].find(([holds]) => !holds)?.slice(1) ?? [null];
  }
}

// A release or a fit, of the text of a file. A fit that holds its release is asked of it again.
export function read(text) {
  const odd = { NaN: "null", Infinity: "1e999" }; // Python writes them, JSON has none
  const file = JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|NaN|Infinity/g, (one) => odd[one] ?? one));
  const { question, ridge, matrix, release, derived } = file.fit ?? {}, of = file.release ?? { ...release, matrix };
  ensure(/^privgram-(release|regression|release-fit)$/.test(file.format), "neither a release nor a regression");
  const version = file.format === "privgram-regression" ? 1 : 2;
  ensure(file.version === version, `the file is of version ${file.version}, and version ${version} is read here`);
  ensure(derived ?? of.derived, "it lacks what a reader needs: save it again, in Python");
  if (!question) return derived ? new Fit(file.fit) : new Release(of);
  const isPlain = !ridge && ![question.endogenous, question.absorbed].flat().length;
  ensure(isPlain, "penalties, instruments and absorbed factors are not read here");
  return new Release(of).regress(question.target, question.features, { ...question, reference: question.references });
}
