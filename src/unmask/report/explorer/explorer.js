// What answers when a control moves: the rows of each figure, the verdict, the table, the point behind a dot.
// chosen.py and prepare.py say the same for the page as it begins; tests/report/test_explorer.py holds them together.
(() => {
  "use strict";
  const told = JSON.parse(document.getElementById("explorer").textContent);
  const points = unpacked(told.points);
  const state = { ...told.state };
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

  // ---- numbers in words, as Python has them

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
    if (p.low === null || p.high === null) return `${general(p.value, 4)} (no interval of ${p.n}, it needs 20)`;
    return `${general(p.value, 4)} [${general(p.low, 4)}, ${general(p.high, 4)}]`;
  }
  function share(p) {
    const percent = (value, digits) => general(100 * value, digits);
    if (p.method.startsWith("exact") || p.low === null || p.high === null) return `${percent(p.value, 3)}%`;
    if (p.value === 0 && p.low === 0 && p.high > 0) return `< ${percent(p.high, 2)}%`;
    return `${percent(p.value, 3)}% [${percent(p.low, 3)}, ${percent(p.high, 3)}]`;
  }
  const shown = (value, yardstick) => (yardstick.share ? `${general(100 * value, 3)}%` : general(value, 4));
  const isAR = (p) => p.kind === "ar";
  const rounds = (p) => (p.steps === null ? `${general(p.evaluations, 4)} evaluations` : `${general(p.steps, 6)} rounds`);
  function short(yardstick) {
    const own = { ser: "SER", ter: "TER ratio" }[yardstick.name];
    return own || yardstick.title[0].toLowerCase() + yardstick.title.slice(1);
  }

  // ---- chosen.py

  function rows(measures, free, length = state.length) {
    const chosen = { ...state, length };
    const fixed = told.controls.filter((name) => !free.includes(name) && chosen[name] !== null);
    const said = measures.flatMap((measure) => byMeasure.get(measure) || []);
    const kept = said.filter((p) =>
      fixed.every((name) => p[name] === null || p[name] === chosen[name] || (name === "sampler" && isAR(p))));
    return kept.sort((a, b) => a.number - b.number);
  }

  // The length, or where it leaves fewer lines than the least, the one that has most of them.
  function elsewhere(yardstick, by, least = 2) {
    const seen = new Map();
    for (const p of rows(yardstick.measures, [by, "length"])) {
      if (isAR(p)) continue;
      if (!seen.has(p.length)) seen.set(p.length, new Set());
      seen.get(p.length).add(p[by]);
    }
    const here = seen.get(state.length);
    if (!seen.size || (here && here.size >= least)) return state.length;
    return [...seen].reduce((a, b) => (b[1].size > a[1].size ? b : a))[0];
  }

  function need(curve, yardstick, target) {
    const ordered = curve.filter((p) => p.evaluations !== null)
      .sort((a, b) => a.evaluations - b.evaluations || (a.steps || 0) - (b.steps || 0));
    let met = null;
    for (const point of [...ordered].reverse()) {
      if (!(yardstick.rises ? point.value >= target : point.value <= target)) break;
      met = point;
    }
    if (met || !ordered.length) return { point: met, best: null };
    const sign = yardstick.rises ? -1 : 1;
    return { point: null, best: ordered.reduce((a, b) => (sign * b.value < sign * a.value ? b : a)) };
  }

  function verdict() {
    const yardstick = told.yardsticks[state.metric];
    const here = rows(yardstick.measures, []);
    const curve = here.filter((p) => !isAR(p)), ar = here.find(isAR) || null;
    const found = need(curve, yardstick, state.target);
    const goal = `${short(yardstick)} ${yardstick.rises ? "of at least" : "of at most"} ${shown(state.target, yardstick)}`;
    const whom = state.of + (state.length === null ? "" : ` at ${state.length} tokens`);
    if (!curve.length) return [`Nothing was measured of ${short(yardstick)} for ${whom} by ${state.sampler}.`, []];
    if (!found.point) {
      if (!found.best) return [`What ${short(yardstick)} of ${whom} costs was not measured.`, []];
      const numbers = [
        [shown(found.best.value, yardstick), `the best ${short(yardstick)}, after ${rounds(found.best)}`],
        [general(found.best.evaluations, 4), "evaluations a sequence there"],
      ];
      if (ar) numbers.push([`AR: ${shown(ar.value, yardstick)}`, `with ${general(ar.evaluations, 4)} evaluations, one a token`]);
      return [`No number of rounds that was measured brings ${state.sampler} to ${goal} on ${whom}.`, numbers];
    }
    const at = found.point, numbers = [[rounds(at), `for ${goal}`]];
    const length = ar && ar.evaluations ? ar.evaluations : at.length;
    const begin = `On ${whom}, ${goal} takes ${rounds(at)} of ${state.sampler}`;
    if (!length) return [`${whom}: ${goal} takes ${rounds(at)} of ${state.sampler}.`, numbers];
    const part = at.evaluations / length, own = at.evaluations - at.causal, even = (length - at.causal) / own;
    const times = at.flops === null ? "" : `${at.causal ? "at least " : ""}${general(at.flops, 3)} times`;
    const flops = times && `; its arithmetic ${times}, as each reads all tokens`;
    const spent = at.causal ? `${general(own, 4)} and ${general(at.causal, 4)} of the AR model` : general(at.evaluations, 4);
    numbers.push([`${(100 * part).toFixed(0)}% of AR's evaluations`,
      `${spent} against ${general(length, 4)}${flops}`]);
    if (at.seconds && ar && ar.seconds) {
      const times = ar.seconds / at.seconds;
      numbers.push([`${general(times, 2)} times as fast`,
        `${general(at.seconds, 3)} s a sequence against ${general(ar.seconds, 3)} s`]);
      return [`${begin}: ${times > 1 ? "faster than AR" : "slower than AR"} here.`, numbers];
    }
    numbers.push([`break-even at ${general(even, 3)}`, "tokens of AR: as long as an evaluation may last to be as fast"]);
    return [even > 1
      ? `${begin}: faster than AR where an evaluation lasts less than ${general(even, 3)} of AR's tokens.`
      : `${begin}: no fewer evaluations than AR.`, numbers];
  }

  // ---- prepare.py

  function row(p, by) {
    return {
      kind: p.kind, place: p.steps, value: p.value, low: p.low, high: p.high, series: p[by],
      chosen: p[by] === state[by] || (isAR(p) && by === "sampler"), shown: estimate(p),
      rounds: isAR(p) ? "AR" : p.knob || rounds(p),
      cost: p.evaluations === null ? null : general(p.evaluations, 4),
      told: p.n ? `${p.n} rows` : "theory", goal: false, size: p.length === null ? null : `L = ${p.length}`, at: p.number,
    };
  }
  const lastOf = (found) => {
    const ends = new Map();
    for (const one of found.filter((r) => r.line && r.place).sort((a, b) => a.place - b.place)) ends.set(one.series, one);
    return ends;
  };
  const prepare = {
    curves(figure, yardstick) {
      const by = figure.options.by;
      const length = elsewhere(yardstick, by, 1);
      const theory = yardstick.predicted ? rows([yardstick.predicted], [by], length) : [];
      const said = rows(yardstick.measures, [by], length);
      const known = new Set(theory.map((p) => p[by])), seen = new Set(said.map((p) => p[by]));
      const found = said.filter((p) => p.steps || isAR(p)).map((p) => ({ ...row(p, by), line: !known.has(p[by]), dot: true }));
      found.push(...theory.filter((p) => seen.has(p[by])).map((p) => ({ ...row(p, by), line: true, dot: false })));
      const ends = lastOf(found);
      for (const one of found) one.end = ends.get(one.series) === one;
      if (yardstick.name === state.metric) found.push({ goal: true, kind: "goal", value: state.target, place: null });
      return found;
    },
    fronts(figure, yardstick) {
      const by = figure.options.by, sign = yardstick.rises ? -1 : 1;
      const length = elsewhere(yardstick, by);
      const said = rows(yardstick.measures, [by], length).filter((p) => p[state.cost]);
      const found = said.map((p) => ({ ...row(p, by), place: p[state.cost], line: !isAR(p), dot: true }));
      let best = Infinity;
      for (const one of [...found].sort((a, b) => a.place - b.place || sign * (a.value - b.value))) {
        one.front = sign * one.value < best;
        if (one.front) best = sign * one.value;
      }
      const few = new Set(found.filter((r) => r.line).map((r) => r.series)).size <= told.names;
      const front = new Set(found.filter((r) => r.front).map((r) => r.series));
      const lines = found.filter((r) => r.line), named = new Map();
      const middle = (Math.min(...lines.map((r) => r.value)) + Math.max(...lines.map((r) => r.value))) / 2;
      const far = (one) => Math.abs(one.value - middle);
      for (const one of [...lines].sort((a, b) => far(a) - far(b) || a.place - b.place)) {
        if (!named.has(one.series)) named.set(one.series, one);
      }
      for (const one of found) one.end = named.get(one.series) === one && (few || one.chosen || front.has(one.series));
      const even = { evaluations: length, flops: 1 }[state.cost];
      if (found.length && even) found.push({ kind: "even", place: even, value: null, line: false });
      return found;
    },
    needs(figure, yardstick) {
      const by = figure.options.by, lines = new Map();
      for (const p of rows(yardstick.measures, [by], elsewhere(yardstick, by)).filter((p) => !isAR(p))) {
        if (!lines.has(p[by])) lines.set(p[by], []);
        lines.get(p[by]).push(p);
      }
      const found = [];
      for (const [series, line] of lines) {
        const point = need(line, yardstick, state.target).point;
        if (point && point[state.cost]) {
          const cost = point[state.cost];
          found.push({ ...row(point, by), value: cost, low: null, high: null, place: cost, series });
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
    const room = told.frame.room * (high - low) || 0.5;
    low = least === null ? low - room : least;
    high += room;
    const across = found.map((r) => r.place).filter((value) => value);
    let left = across.length ? Math.min(...across) : 1, right = across.length ? Math.max(...across) : 1;
    const span = Math.max(right / left, 2);
    left /= span ** told.frame.room;
    right *= span ** told.frame.names;
    return { low, high, left, right, gap: ((high - low) * told.frame.label) / told.frame.height };
  }

  const parameters = (found, yardstick) =>
    ({ ...framed(found, yardstick.least), target: state.target, share: yardstick.share });
  const yardstickOf = (figure) => told.yardsticks[figure.options.yardstick || state.metric];
  const rowsOf = (figure) => prepare[figure.prepare](figure, yardstickOf(figure));

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
    for (const figure of told.figures) {
      const yardstick = yardstickOf(figure), found = rowsOf(figure);
      const whole = document.getElementById(`figure-${figure.name}`);
      whole.querySelector(".nothing").hidden = found.length > 0;
      for (const part of whole.querySelectorAll(".plot, figcaption")) part.hidden = found.length === 0;
      const view = views[figure.name];
      if (!view || !found.length) continue;
      for (const [name, value] of Object.entries(parameters(found, yardstick))) view.signal(name, value);
      view.data("rows", found).run();
    }
    numbersTable();
  }

  function numbersTable() {
    const place = document.getElementById("numbers");
    if (!place) return;
    const yardstick = told.yardsticks[state.metric];
    const said = rows(yardstick.measures, ["of"]).sort((a, b) =>
      isAR(a) - isAR(b) || (a.steps || 0) - (b.steps || 0) || (a.evaluations || 0) - (b.evaluations || 0));
    const columns = [...new Set(rows(yardstick.measures, ["of"]).map((p) => p.of))], lines = new Map();
    for (const p of said) {
      const name = isAR(p) ? "AR" : p.knob || (p.steps ? general(p.steps, 6) : "-");
      if (!lines.has(name)) lines.set(name, {});
      lines.get(name)[p.of] = p;
    }
    const cell = (tag, content, scope) => {
      const made = document.createElement(tag);
      if (scope) made.scope = scope;
      made.append(content);
      return made;
    };
    const table = document.createElement("table"), caption = document.createElement("caption");
    caption.textContent = yardstick.title;
    const head = document.createElement("tr");
    head.append(...["N", ...columns].map((name) => cell("th", name, "col")));
    const body = [...lines].map(([name, line]) => {
      const made = document.createElement("tr");
      made.append(cell("th", name, "row"), ...columns.map((column) => {
        const p = line[column];
        if (!p) return cell("td", "-");
        const button = document.createElement("button");
        button.type = "button";
        button.dataset.at = p.number;
        button.textContent = yardstick.share ? share(p) : estimate(p);
        return cell("td", button);
      }));
      return made;
    });
    table.append(caption, head, ...body);
    place.replaceChildren(table);
  }

  function select(number) {
    const p = points[number];
    if (!p) return;
    for (const name of told.controls) {
      if (p[name] !== null && !(name === "sampler" && isAR(p))) state[name] = p[name];
    }
    changed();
    const place = document.getElementById("point");
    if (!place) return;
    place.hidden = false;
    const yardstick = Object.values(told.yardsticks).find((one) => one.measures.includes(p.measure));
    const value = yardstick && yardstick.share ? share(p) : estimate(p);
    const about = [p.of, p.model, p.sampler, p.setting, p.length && `${p.length} tokens`, isAR(p) ? null : p.knob || rounds(p)];
    place.querySelector(".what").textContent = `${p.measure} ${value}`;
    const cost = [
      p.n ? `${p.n} rows` : "theory",
      p.method,
      p.evaluations !== null && `${general(p.evaluations, 4)} evaluations a sequence`,
      p.flops !== null && `${general(p.flops, 3)} times AR's arithmetic`,
      p.seconds !== null && `${general(p.seconds, 3)} s`,
    ];
    place.querySelector(".whose").textContent = [...about, ...cost].filter(Boolean).join(" · ");
    const command = told.commands[p.metric];
    const usable = command && [...command.matchAll(/{(\w+)}/g)].every(([, name]) => p[name] !== null && p[name] !== undefined);
    place.querySelector("code").textContent = usable ? command.replace(/{(\w+)}/g, (_, name) => p[name]) : told.table;
  }

  function changed() {
    for (const control of document.querySelectorAll("#controls select")) control.value = String(state[control.name]);
    const yardstick = told.yardsticks[state.metric], box = document.getElementById("control-target");
    if (box) {
      if (document.activeElement !== box) box.value = general(yardstick.share ? 100 * state.target : state.target, 6);
      document.getElementById("unit").textContent = yardstick.share ? "%" : "";
    }
    const parts = Object.entries(state).filter(([name, value]) => value !== null && value !== told.state[name]);
    const fragment = new URLSearchParams(parts).toString();
    history.replaceState(null, "", fragment ? `#${fragment}` : location.pathname + location.search);
    write();
  }

  function read() {
    Object.assign(state, told.state);
    for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
      if (name === "metric" && told.yardsticks[value]) state.metric = value;
      if (name === "cost" && document.querySelector(`#control-cost option[value="${CSS.escape(value)}"]`)) state.cost = value;
      if (name === "target" && value !== "" && Number.isFinite(Number(value))) state.target = Number(value);
      const choices = told.choices[name];
      const found = choices && choices.find((choice) => String(choice) === value);
      if (found !== undefined) state[name] = found;
    }
    changed();
  }

  const controls = document.getElementById("controls");
  if (controls) {
    controls.addEventListener("submit", (event) => event.preventDefault());
    controls.addEventListener("input", (event) => {
      const { name, value } = event.target, yardstick = told.yardsticks[state.metric];
      if (name === "target") {
        const number = Number(value);
        if (value === "" || !Number.isFinite(number)) return;
        state.target = yardstick.share ? number / 100 : number;
      } else if (name === "metric") {
        state.metric = value;
        state.target = told.yardsticks[value].target;
      } else if (name === "cost") state.cost = value;
      else state[name] = told.choices[name].find((choice) => String(choice) === value);
      changed();
    });
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-at]");
    if (button) select(Number(button.dataset.at));
  });
  window.addEventListener("hashchange", read);
  window.unmask = { state, verdict, rows: (name) => rowsOf(told.figures.find((one) => one.name === name)) };

  window.addEventListener("load", async () => {
    read();
    for (const figure of told.figures) {
      const { definition, name } = figure, found = rowsOf(figure), given = parameters(found, yardstickOf(figure));
      const fluid = window.innerWidth < 1000 || definition.width < 600;
      const params = definition.params.map((one) => ({ ...one, value: given[one.name] ?? one.value }));
      const whole = { ...definition, params, datasets: { rows: found }, ...(fluid ? { width: "container", autosize: { type: "fit-x", contains: "padding" } } : {}) };
      const { view } = await vegaEmbed(`#${CSS.escape(name)}`, whole, { renderer: "svg", actions: false, ast: false });
      document.querySelector(`#${CSS.escape(name)} svg`).setAttribute("aria-hidden", "true"); // told by what is around it
      view.addEventListener("click", (_, item) => {
        if (item && item.datum && item.datum.at !== undefined) select(item.datum.at);
      });
      views[name] = view;
    }
    write();
    document.documentElement.dataset.ready = "yes";
  });
})();
