// Draws the page again when a control moves: the verdict, the rows of each figure, the table, the selected point.
// chosen.py and prepare.py compute the same for the first state of the page; tests/report/test_explorer.py compares both.
(() => {
  "use strict";
  const page = JSON.parse(document.getElementById("explorer").textContent);
  const points = unpacked(page.points);
  const state = { ...page.state };
  const views = {};
  const byMeasure = new Map();
  for (const point of points) {
    if (!byMeasure.has(point.measure)) byMeasure.set(point.measure, []);
    byMeasure.get(point.measure).push(point);
  }

  function unpacked(columns) {
    const names = Object.keys(columns);
    const count = (columns.value || []).length;
    const found = Array.from({ length: count }, (_, number) => ({ number }));
    for (const name of names) {
      const column = columns[name];
      if (Array.isArray(column)) column.forEach((value, i) => { found[i][name] = value; });
      else column.at.forEach((word, i) => { found[i][name] = column.words[word]; });
    }
    return found;
  }

  // ---- numbers as text, as in Python

  function general(value, digits) {
    if (value === 0) return "0";
    const power = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(digits)))));
    if (power < -4 || power >= digits) {
      const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
      const sign = exponent[0], size = exponent.slice(1).padStart(2, "0");
      return `${trimmed(mantissa)}e${sign}${size}`;
    }
    return trimmed(value.toFixed(Math.max(digits - 1 - power, 0)));
  }
  const trimmed = (text) => (text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text);

  function estimate(p) {
    if (p.method.startsWith("exact")) return `${general(p.value, 6)} (exact)`;
    if (p.value === 0 && p.low === 0 && p.high > 0) return `< ${general(p.high, 2)} (none in ${p.n})`;
    if (p.low === null || p.high === null) return `${general(p.value, 4)} (no interval: only ${p.n} values; 20 needed)`;
    return `${general(p.value, 4)} [${general(p.low, 4)}, ${general(p.high, 4)}]`;
  }
  function valueText(p, metric) {
    const percent = (value, digits) => `${general(100 * value, digits)}%`;
    if (!metric.share) return estimate(p);
    if (p.value === 0 && p.low === 0 && p.high > 0) return `< ${percent(p.high, 2)}`;
    const value = percent(p.value, 3);
    if (p.method.startsWith("exact") || p.low === null || p.high === null) return value;
    return `${value} [${percent(p.low, 3)}, ${percent(p.high, 3)}]`;
  }
  const shown = (value, metric) => (metric.share ? `${general(100 * value, 3)}%` : general(value, 4));
  const spent = (p, cost) => (p[cost] === null ? "-" : general(p[cost], 4));
  const isAR = (p) => p.kind === "ar";
  const isMDM = (p) => p.kind === "mdm";
  function pace(p) {
    if (p.knob) return p.knob;
    if (p.steps === null) return p.model_calls === null ? "-" : `${general(p.model_calls, 4)} model calls`;
    return `${general(p.steps, 6)} step${p.steps === 1 ? "" : "s"}`;
  }
  const setting = (p) => (p.sampler ? `${p.sampler}, ${pace(p)}` : pace(p));
  const short = (metric) => metric.short || metric.title[0].toLowerCase() + metric.title.slice(1);
  const usable = (sampler) => !page.oracles.includes((sampler || "").split("(")[0]);

  // ---- chosen.py

  function rows(measures, free, length = state.length) {
    const chosen = { ...state, length };
    const fixed = Object.keys(page.controls).filter((name) => !free.includes(name) && chosen[name] !== null);
    const every = measures.flatMap((measure) => byMeasure.get(measure) || []);
    const matching = every.filter((p) =>
      fixed.every((name) => p[name] === null || p[name] === chosen[name] || (name === "sampler" && isAR(p))));
    return matching.sort((a, b) => a.number - b.number);
  }

  // The length of the state; the one with the most lines, if that has fewer lines than `least`.
  function elsewhere(metric, by, least = 2) {
    const seen = new Map();
    for (const p of rows(metric.measures, [by, "length"])) {
      if (isAR(p)) continue;
      if (!seen.has(p.length)) seen.set(p.length, new Set());
      seen.get(p.length).add(p[by]);
    }
    const here = seen.get(state.length);
    if (!seen.size || (here && here.size >= least)) return state.length;
    return [...seen].reduce((a, b) => (b[1].size > a[1].size ? b : a))[0];
  }

  function standing(p, metric, target) {
    const low = p.low === null ? p.value : p.low, high = p.high === null ? p.value : p.high;
    if (metric.rises ? low >= target : high <= target) return "meets";
    return (metric.rises ? high >= target : low <= target) ? "may meet" : "misses";
  }

  function need(found, metric, target, cost) {
    const priced = found.filter((p) => p[cost] !== null)
      .sort((a, b) => a[cost] - b[cost] || (a.steps || 0) - (b.steps || 0) || a.number - b.number);
    for (const wanted of ["meets", "may meet"]) {
      const point = priced.find((p) => standing(p, metric, target) === wanted);
      if (point) return { point, standing: wanted, best: null };
    }
    const sign = metric.rises ? -1 : 1;
    const best = priced.length ? priced.reduce((a, b) => (sign * b.value < sign * a.value ? b : a)) : null;
    return { point: null, standing: "misses", best };
  }

  function goal() {
    const metric = page.metrics[state.metric];
    if (state.target !== null) return state.target;
    const values = rows(metric.measures, ["sampler"]).filter(isMDM).map((p) => p.value);
    if (!values.length) return null;
    return metric.rises ? Math.max(...values) * (1 - page.near) : Math.min(...values) * (1 + page.near);
  }

  function verdict() {
    const metric = page.metrics[state.metric], target = goal(), cost = state.cost;
    const every = rows(metric.measures, ["sampler"]), ar = every.find(isAR) || null, masked = every.filter(isMDM);
    const whom = state.of + (state.length === null ? "" : ` at ${state.length} tokens`);
    if (!masked.length || target === null) return [`No data for ${short(metric)} of ${whom}.${elsewhereWords()}`, []];
    const found = need(masked.filter((p) => usable(p.sampler)), metric, target, cost);
    const own = need(masked.filter((p) => p.sampler === state.sampler), metric, target, cost);
    const wanted = `${short(metric)} of at ${metric.rises ? "least" : "most"} ${shown(target, metric)}`;
    if (!found.point) {
      if (!found.best) return [`${short(metric)} of ${whom} has no measured cost.`, []];
      const numbers = [
        [valueText(found.best, metric), `best measured ${short(metric)}: ${setting(found.best)}`],
        [spent(found.best, cost), `${page.costs[cost]} there`],
      ];
      if (ar) numbers.push([`AR: ${valueText(ar, metric)}`, `with ${spent(ar, "model_calls")} model calls per sequence`]);
      return [`On ${whom}, no measured setting reaches ${wanted}.${chosen(own, null)}`, numbers];
    }
    const at = found.point, met = found.standing === "meets";
    let sentence = met ? `On ${whom}, the cheapest measured setting with ${wanted} is ${setting(at)}.`
      : `On ${whom}, no measured setting reaches ${wanted} with 95% confidence; the cheapest that may is ${setting(at)}.`;
    const sure = met ? "the whole interval meets the target" : "the interval contains the target";
    const numbers = [[setting(at), `the cheapest measured setting; ${short(metric)} ${valueText(at, metric)}: ${sure}`]];
    const length = ar && ar.model_calls ? ar.model_calls : at.length, more = chosen(own, at);
    const calls = at.model_calls - at.causal;
    if (!length || calls <= 0) return [sentence + more, numbers];
    const even = (length - at.causal) / calls;
    const compute = at.flops === null ? "" : `; ${at.causal ? "at least " : ""}${general(at.flops, 3)} times AR's compute`;
    const beside = at.causal ? ` and ${general(at.causal, 4)} AR tokens` : "";
    numbers.push([`${general(calls, 4)} model calls${beside}`, `per sequence; AR needs ${general(length, 4)}${compute}`]);
    if (at.seconds && ar && ar.seconds) {
      const times = ar.seconds / at.seconds;
      numbers.push([`${general(times, 2)} times AR's speed`,
        `${general(at.seconds, 3)} s per sequence, AR ${general(ar.seconds, 3)} s`]);
      return [`${sentence} It is ${times > 1 ? "faster" : "slower"} than AR here.${more}`, numbers];
    }
    numbers.push([`${general(even, 3)} AR tokens`, "break-even time of one model call: a faster call beats AR"]);
    sentence += even > 1
      ? ` It is faster than AR if one model call takes less time than ${general(even, 3)} AR tokens.`
      : " AR needs no more model calls.";
    return [sentence + more, numbers];
  }

  function chosen(own, best) {
    const name = state.sampler;
    if (name === null || (best && best.sampler === name) || (!own.point && !best)) return "";
    const note = usable(name) ? "" : " (a reference that uses the true language; no real model can use it)";
    const begin = ` The chosen sampler, ${name}${note},`;
    if (!own.point) return `${begin} ${own.best ? "does not reach it" : "was not measured here"}.`;
    return `${begin} ${own.standing === "meets" ? "needs" : "may need"} ${pace(own.point)}.`;
  }

  // ---- choices: those without data are disabled; a button leads to the nearest state that has data

  function nearest(name, value) {
    const others = Object.keys(page.controls).filter((other) => other !== name);
    const apart = (p) => others.filter((o) => p[o] !== null && state[o] !== null && p[o] !== state[o]);
    let best = null;
    for (const p of page.metrics[state.metric].measures.flatMap((measure) => byMeasure.get(measure) || [])) {
      if (!isMDM(p) || (name && p[name] !== value && p[name] !== null)) continue;
      const far = apart(p);
      if (!best || far.length < best.far.length) best = { p, far };
      if (!far.length) break;
    }
    return best;
  }

  const differences = ({ p, far }) => far.map((name) => `${page.controls[name]} ${p[name]}`).join(", ");

  function elsewhereWords() {
    const found = nearest(null, null);
    return found && found.far.length ? ` The nearest choice with data: ${differences(found)}.` : "";
  }

  function move(p) {
    for (const name of Object.keys(page.controls)) {
      if (p[name] !== null && !(name === "sampler" && isAR(p))) state[name] = p[name];
    }
  }

  function offer() {
    const chips = [], empty = !rows(page.metrics[state.metric].measures, ["sampler"]).some(isMDM);
    const chip = (found, text) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.addEventListener("click", () => { move(found.p); changed(); });
      chips.push(button);
    };
    const near = empty && nearest(null, null);
    if (near && near.far.length) chip(near, differences(near));
    for (const [name, label] of Object.entries(page.controls)) {
      const box = document.getElementById(`control-${name}`);
      if (!box) continue;
      page.choices[name].forEach((value, number) => {
        const found = nearest(name, value);
        box.options[number].disabled = !found || found.far.length > 0;
        if (!found || !found.far.length) return;
        chip(found, `${name === "sampler" ? "" : `${label} `}${value} (${differences(found)})`);
      });
    }
    const place = document.getElementById("elsewhere");
    place.hidden = !chips.length;
    place.replaceChildren("Measured elsewhere: ", ...chips);
  }

  // ---- prepare.py

  function row(p, by) {
    return {
      kind: p.kind, place: p.steps, value: p.value, low: p.low, high: p.high, series: p[by],
      chosen: p[by] === state[by] || (isAR(p) && by === "sampler"), shown: estimate(p),
      setting: isAR(p) ? "AR" : pace(p),
      cost: p.model_calls === null ? null : general(p.model_calls, 4),
      sample: p.n ? `${p.n} sequences` : "theory", goal: false, size: p.length === null ? null : `L = ${p.length}`, at: p.number,
    };
  }
  const lastOf = (found) => {
    const ends = new Map();
    for (const one of found.filter((r) => r.line && r.place).sort((a, b) => a.place - b.place)) ends.set(one.series, one);
    return ends;
  };
  const prepare = {
    curves(figure, metric) {
      const by = figure.options.by;
      const length = elsewhere(metric, by, 1);
      const theory = metric.predicted ? rows([metric.predicted], [by], length) : [];
      const measured = rows(metric.measures, [by], length), target = goal();
      const known = new Set(theory.map((p) => p[by])), seen = new Set(measured.map((p) => p[by]));
      const found = measured.filter((p) => p.steps || isAR(p)).map((p) => ({ ...row(p, by), line: !known.has(p[by]), dot: true }));
      found.push(...theory.filter((p) => seen.has(p[by])).map((p) => ({ ...row(p, by), line: true, dot: false })));
      const ends = lastOf(found);
      for (const one of found) one.end = ends.get(one.series) === one;
      if (found.length && metric.name === state.metric && target !== null) found.push({ goal: true, kind: "goal", value: target, place: null });
      return found;
    },
    fronts(figure, metric) {
      const by = figure.options.by, sign = metric.rises ? -1 : 1;
      const length = elsewhere(metric, by);
      const across = page.costs[state.cost], priced = rows(metric.measures, [by], length).filter((p) => p[state.cost]);
      const found = priced.map((p) => ({ ...row(p, by), place: p[state.cost], line: !isAR(p), dot: true, across }));
      let best = Infinity;
      for (const one of [...found].sort((a, b) => a.place - b.place || sign * (a.value - b.value))) {
        one.front = usable(one.series) && sign * one.value < best;
        if (one.front) best = sign * one.value;
      }
      const few = new Set(found.filter((r) => r.line).map((r) => r.series)).size <= page.names;
      const front = new Set(found.filter((r) => r.front).map((r) => r.series));
      const lines = found.filter((r) => r.line), named = new Map();
      const middle = (Math.min(...lines.map((r) => r.value)) + Math.max(...lines.map((r) => r.value))) / 2;
      const far = (one) => Math.abs(one.value - middle);
      for (const one of [...lines].sort((a, b) => far(a) - far(b) || a.place - b.place)) {
        if (!named.has(one.series)) named.set(one.series, one);
      }
      for (const one of found) one.end = named.get(one.series) === one && (few || one.chosen || front.has(one.series));
      const even = { model_calls: length, flops: 1 }[state.cost];
      if (found.length && even) found.push({ kind: "even", place: even, value: null, line: false });
      return found;
    },
    needs(figure, metric) {
      const by = figure.options.by, lines = new Map(), target = goal();
      for (const p of rows(metric.measures, [by], elsewhere(metric, by)).filter(isMDM)) {
        if (!lines.has(p[by])) lines.set(p[by], []);
        lines.get(p[by]).push(p);
      }
      const found = [];
      for (const [series, line] of lines) {
        const point = target === null ? null : need(line, metric, target, state.cost).point;
        if (point && point[state.cost]) {
          const value = point[state.cost];
          found.push({ ...row(point, by), value, low: null, high: null, place: value, series, across: page.costs[state.cost] });
        }
      }
      return found.sort((a, b) => a.place - b.place || (a.series < b.series ? -1 : 1));
    },
    plain(figure) {
      const { obeys = [], marks = [] } = figure.options;
      return figure.own
        .filter((one) => obeys.every((name) => one[name] == null || state[name] === null || one[name] === state[name]))
        .map((one) => ({ ...one, chosen: marks.every((name) => one[name] === state[name]) }));
    },
  };

  function framed(found, least) {
    const seen = found.flatMap((r) => [r.value, r.low, r.high]).filter((value) => value !== null && value !== undefined);
    let low = seen.length ? Math.min(...seen) : 0, high = seen.length ? Math.max(...seen) : 1;
    const margin = page.frame.margin * (high - low) || 0.5;
    low = least === null ? low - margin : least;
    high += margin;
    const across = found.map((r) => r.place).filter((value) => value);
    let left = across.length ? Math.min(...across) : 1, right = across.length ? Math.max(...across) : 1;
    const span = Math.max(right / left, 2);
    left /= span ** page.frame.margin;
    right *= span ** page.frame.names;
    return { low, high, left, right, gap: ((high - low) * page.frame.label) / page.frame.height };
  }

  const parameters = (found, metric) =>
    ({ ...framed(found, metric.least), target: state.target || 0, share: metric.share });
  const metricOf = (figure) => page.metrics[figure.options.metric || state.metric];
  const rowsOf = (figure) => prepare[figure.prepare](figure, metricOf(figure));

  // ---- the page

  function write() {
    const [sentence, numbers] = verdict();
    const place = document.getElementById("verdict");
    if (place) {
      place.querySelector(".verdict").textContent = sentence;
      place.querySelector("ol").replaceChildren(...numbers.map(([number, what]) => {
        const item = document.createElement("li"), strong = document.createElement("strong");
        strong.textContent = number;
        item.append(strong, what);
        return item;
      }));
    }
    for (const figure of page.figures) {
      const metric = metricOf(figure), found = rowsOf(figure);
      const whole = document.getElementById(`figure-${figure.name}`);
      whole.querySelector(".nothing").hidden = found.length > 0;
      for (const part of whole.querySelectorAll(".plot, figcaption")) part.hidden = found.length === 0;
      const view = views[figure.name];
      if (!view || !found.length) continue;
      for (const [name, value] of Object.entries(parameters(found, metric))) view.signal(name, value);
      view.data("rows", found).run();
    }
    numbersTable();
  }

  function grid(metric) {
    const here = rows(metric.measures, ["of", "model", "sampler"]), models = new Set(here.map((p) => p.model));
    const several = [...models].filter((model) => model !== null).length > 1;
    const order = [...new Set(here.map((p) => p.sampler))], column = (p) => (several && p.model ? `${p.of}, ${p.model}` : p.of);
    const columns = new Set(), lines = new Map();
    for (const p of [...here].sort((a, b) => !isMDM(a) - !isMDM(b) || order.indexOf(a.sampler) - order.indexOf(b.sampler)
      || (a.steps || 0) - (b.steps || 0) || (a.model_calls || 0) - (b.model_calls || 0))) {
      const name = { ar: "AR", text: "the text itself" }[p.kind] || p.sampler || "-", how = isMDM(p) ? pace(p) : "";
      const key = `${name}\n${how}`;
      if (!lines.has(key)) lines.set(key, { name, how, cells: {} });
      lines.get(key).cells[column(p)] = p;
    }
    for (const p of here) columns.add(column(p));
    return [[...columns], [...lines.values()]];
  }

  let sorted = null; // the column that a reader sorts by, and its direction

  function numbersTable() {
    const place = document.getElementById("numbers");
    if (!place) return;
    const metric = page.metrics[state.metric], [columns, lines] = grid(metric);
    const cell = (tag, content, scope) => {
      const element = document.createElement(tag);
      if (scope) element.scope = scope;
      element.append(content);
      return element;
    };
    if (sorted && columns.includes(sorted.column)) {
      const value = (line) => line.cells[sorted.column] ? sorted.sign * line.cells[sorted.column].value : Infinity;
      lines.sort((a, b) => value(a) - value(b));
    }
    const table = document.createElement("table"), caption = document.createElement("caption");
    caption.textContent = metric.title;
    const head = document.createElement("tr");
    head.append(cell("th", "sampler", "col"), cell("th", "setting", "col"), ...columns.map((column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = "Sort by this column";
      button.textContent = column;
      button.addEventListener("click", () => {
        sorted = { column, sign: sorted && sorted.column === column ? -sorted.sign : 1 };
        numbersTable();
      });
      return cell("th", button, "col");
    }));
    table.append(caption, head, ...lines.map(({ name, how, cells }) => {
      const row = document.createElement("tr");
      row.append(cell("th", name, "row"), cell("td", how), ...columns.map((column) => {
        const p = cells[column];
        if (!p) return cell("td", "-");
        const button = document.createElement("button");
        button.type = "button";
        button.dataset.at = p.number;
        button.textContent = valueText(p, metric);
        return cell("td", button);
      }));
      return row;
    }));
    place.replaceChildren(table);
  }

  function select(number) {
    const p = points[number];
    if (!p) return;
    move(p);
    changed();
    const place = document.getElementById("point");
    if (!place) return;
    place.hidden = false;
    const metric = Object.values(page.metrics).find((one) => one.measures.includes(p.measure));
    const value = metric ? valueText(p, metric) : estimate(p);
    const about = [p.of, p.model, p.sampler, p.setting, p.length && `${p.length} tokens`, isAR(p) ? null : pace(p)];
    place.querySelector(".what").textContent = `${p.measure} ${value}`;
    const cost = [
      p.n ? `${p.n} sequences` : "theory",
      p.method,
      p.model_calls !== null && `${general(p.model_calls, 4)} model calls per sequence`,
      p.flops !== null && `${general(p.flops, 3)} times AR's compute`,
      p.seconds !== null && `${general(p.seconds, 3)} s`,
    ];
    place.querySelector(".whose").textContent = [...about, ...cost].filter(Boolean).join(" · ");
    const command = page.commands[p.job];
    const usable = command && [...command.matchAll(/{(\w+)}/g)].every(([, name]) => p[name] !== null && p[name] !== undefined);
    place.querySelector("code").textContent = usable ? command.replace(/{(\w+)}/g, (_, name) => p[name]) : page.table;
  }

  function changed() {
    for (const control of document.querySelectorAll("#controls select")) control.value = String(state[control.name]);
    if (document.getElementById("controls")) offer();
    const metric = page.metrics[state.metric], box = document.getElementById("control-target");
    if (box) {
      const target = goal();
      if (document.activeElement !== box) box.value = target === null ? "" : general(metric.share ? 100 * target : target, 4);
      document.getElementById("unit").textContent = metric.share ? "%" : "";
    }
    const parts = Object.entries(state).filter(([name, value]) => value !== null && value !== (name === "target" ? metric.target : page.state[name]));
    const fragment = new URLSearchParams(parts).toString();
    history.replaceState(null, "", fragment ? `#${fragment}` : location.pathname + location.search);
    write();
  }

  const allowed = (number, metric) => Number.isFinite(number) && number >= 0 && !(metric.share && number > 1);

  function read() {
    Object.assign(state, page.state);
    for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
      if (name === "metric" && page.metrics[value]) {
        state.metric = value;
        state.target = page.metrics[value].target;
      }
      if (name === "cost" && document.querySelector(`#control-cost option[value="${CSS.escape(value)}"]`)) state.cost = value;
      if (name === "target" && value !== "" && allowed(Number(value), page.metrics[state.metric])) state.target = Number(value);
      const choices = page.choices[name];
      const found = choices && choices.find((choice) => String(choice) === value);
      if (found !== undefined) state[name] = found;
    }
    changed();
  }

  const controls = document.getElementById("controls");
  if (controls) {
    controls.addEventListener("submit", (event) => event.preventDefault());
    controls.addEventListener("input", (event) => {
      const { name, value } = event.target, metric = page.metrics[state.metric];
      if (name === "target") {
        const number = metric.share ? Number(value) / 100 : Number(value);
        if (value === "" || !allowed(number, metric)) return;
        state.target = number;
      } else if (name === "metric") {
        state.metric = value;
        state.target = page.metrics[value].target;
        const found = nearest(null, null);
        if (found && found.far.length) move(found.p);
      } else if (name === "cost") state.cost = value;
      else state[name] = page.choices[name].find((choice) => String(choice) === value);
      changed();
    });
  }
  const player = document.querySelector(".explorer .player"); // the bar of controls must not cover it
  if (player && controls) new IntersectionObserver(([seen]) => controls.classList.toggle("free", seen.isIntersecting)).observe(player);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-at]");
    if (button) select(Number(button.dataset.at));
  });
  window.addEventListener("hashchange", read);
  window.unmask = { state, verdict, rows: (name) => rowsOf(page.figures.find((one) => one.name === name)) };

  window.addEventListener("load", async () => {
    read();
    for (const figure of page.figures) {
      const { definition, name } = figure, found = rowsOf(figure), given = parameters(found, metricOf(figure));
      const params = definition.params.map((one) => ({ ...one, value: given[one.name] ?? one.value }));
      const whole = { ...definition, params, datasets: { rows: found }, width: "container", autosize: { type: "fit-x", contains: "padding" } };
      const { view } = await vegaEmbed(`#${CSS.escape(name)}`, whole, { renderer: "svg", actions: false, ast: false });
      document.querySelector(`#${CSS.escape(name)} svg`).setAttribute("aria-hidden", "true"); // the text around it describes it
      view.addEventListener("click", (_, item) => {
        if (item && item.datum && item.datum.at !== undefined) select(item.datum.at);
      });
      views[name] = view;
    }
    write();
    document.documentElement.dataset.ready = "yes";
  });
})();
