"use strict";
// Players: each reads its data, has one clock for all of its runs, and updates the cells that a step changed.
(() => {
const SVG = "http://www.w3.org/2000/svg";
const SPEEDS = [0.5, 1, 2, 4, 8, 15, 30, 60];  // steps per second
const SECONDS = 9;  // of a complete play, approximately
const THICK = 7, THIN = 1;  // pixels of the strongest arc, and of the weakest
const SPAN = 1;  // nats, the smallest range of a meter's line
const LISTED = 6;  // tokens of a step that the text for screen readers lists

const make = (tag, name, parent, text) => {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  parent?.append(made);
  return made;
};
const draw = (tag, parent, attributes) => {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  parent.append(made);
  return made;
};
const visible = text => text.replace(/\n/g, "\u21b5").replace(/\t/g, "\u21e5").replace(/^ +$/, all => "\u2423".repeat(all.length)) || "\u2205";
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
const listed = parts => parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts[parts.length - 1]}`;
const nats = value => (value < -0.005 ? "\u2212" : "") + Math.abs(value).toFixed(2);

class Run {
  constructor(data, parent, most) {
    this.data = data;
    this.most = most;  // nats of the thickest arc
    this.box = make("article", "run", parent);
    make("h3", "", this.box, data.name);
    this.state = make("p", "state", this.box);
    this.row = make("div", "row", this.box);
    this.row.setAttribute("role", "img");
    const texts = Object.values(data.symbols);
    if (texts.some(text => [...text].length > 2)) this.row.classList.add("words");
    this.why = make("p", "why", this.box);
    this.why.hidden = !data.measured;
    if (data.measured && !data.joint) {
      this.meter = make("div", "meter", this.box);
      const value = make("div", "value", this.meter);
      this.lost = make("strong", "", value);
      this.about = make("span", "", value);
      this.plot = draw("svg", this.meter, { viewBox: "0 0 1000 62", preserveAspectRatio: "none", "aria-hidden": "true" });
    }
    new ResizeObserver(() => { this.places = null; if (this.of) this.arcs(); }).observe(this.row);
  }

  symbol(token) { return visible(this.data.symbols[token]); }

  // Show another row: its hidden cells, and for each step the values to restore when it is undone.
  choose(index, clock, low, high) {
    const of = this.of = this.data.rows[index];
    this.at = 0;
    this.fresh = [];
    this.places = null;
    this.row.replaceChildren();
    this.svg = draw("svg", this.row, { "aria-hidden": "true" });
    this.token = new Array(of.length).fill(null);
    this.step = new Int32Array(of.length);
    this.chance = new Float64Array(of.length);
    this.given = new Set(of.given.map(([place]) => place));
    for (const [place, token] of of.given) this.token[place] = token;
    this.left = of.length - of.given.length;
    const widest = new Array(of.length).fill("");
    for (const [, events] of of.steps) for (const [place, token] of events) {
      if (token !== null && this.symbol(token).length > widest[place].length) widest[place] = this.symbol(token);
    }
    this.cells = widest.map((text, place) => {
      const cell = make("div", "cell", this.row);
      const shown = this.given.has(place) ? this.symbol(this.token[place]) : text;
      cell.text = make("span", "", cell, shown);
      return cell;
    });
    const token = [...this.token], step = [...this.step], chance = [...this.chance];
    this.undo = of.steps.map(([, events], number) => events.map(([place, what, p]) => {
      const before = [place, token[place], step[place], chance[place]];
      [token[place], step[place], chance[place]] = [what, number, p ?? 1];
      return before;
    }));
    for (let place = 0; place < of.length; place++) this.paint(place);
    if (this.meter) this.draw_meter(clock, low, high);
  }

  get steps() { return this.of.steps.length; }

  go(clock) {
    const to = Math.min(clock, this.steps), touched = new Set(this.fresh);
    while (this.at < to) {
      for (const [place, token, p] of this.of.steps[this.at][1]) {
        this.left += (token === null) - (this.token[place] === null);
        [this.token[place], this.step[place], this.chance[place]] = [token, this.at, p ?? 1];
        touched.add(place);
      }
      this.at++;
      if (this.at === this.of.impossible + 1) this.marked(touched);
    }
    while (this.at > to) {
      this.at--;
      for (const [place, token, step, p] of this.undo[this.at].toReversed()) {
        this.left += (token === null) - (this.token[place] === null);
        [this.token[place], this.step[place], this.chance[place]] = [token, step, p];
        touched.add(place);
      }
      if (this.at === this.of.impossible) this.marked(touched);
    }
    this.fresh = this.at ? this.of.steps[this.at - 1][1].filter(([, token]) => token !== null).map(([place]) => place) : [];
    for (const place of this.fresh) touched.add(place);
    const fresh = new Set(this.fresh);
    for (const place of touched) this.paint(place, fresh.has(place) && this.at === to);
    this.arcs();
    this.tell(clock);
  }

  marked(touched) { for (const place of [...this.of.guilty, ...this.of.because]) touched.add(place); }

  get wrong() { return this.of.impossible !== undefined && this.of.impossible !== null && this.at > this.of.impossible; }

  get dead() { return this.data.measured && this.at > 0 && this.of.steps[this.at - 1][2] === null; }

  paint(place, fresh) {
    const cell = this.cells[place], token = this.token[place], given = this.given.has(place);
    let name = "cell";
    if (given) name += " given";
    else if (token !== null) {
      name += fresh ? " on new" : " on";
      const text = this.symbol(token);
      if (cell.text.textContent !== text) cell.text.textContent = text;
      cell.style.setProperty("--r", this.steps > 1 ? (this.step[place] / (this.steps - 1)).toFixed(3) : 0);
      cell.style.setProperty("--p", this.chance[place]);
    }
    const guilty = this.dead && this.wrong && this.of.guilty.includes(place);
    if (guilty) name += " guilty";
    else if (this.dead && this.wrong && this.of.because.includes(place)) name += " because";
    if (cell.className !== name) cell.className = name;
    if (guilty && !cell.mark) cell.mark = make("b", "", cell, place + 1);
    if (!guilty && cell.mark) { cell.mark.remove(); cell.mark = null; }
  }

  arcs() {
    const pairs = this.at ? this.of.steps[this.at - 1][3] : [];
    const error = this.wrong && this.at === this.of.impossible + 1 ? this.of.guilty : [];
    if (!pairs.length && error.length !== 2) {
      if (this.svg.firstChild) this.svg.replaceChildren();
      return;
    }
    this.places ??= this.cells.map(cell => [cell.offsetLeft + cell.offsetWidth / 2, cell.offsetTop, cell.offsetHeight]);
    this.svg.replaceChildren();
    const tied = pairs.filter(([i, j]) => !(i === error[0] && j === error[1]));
    for (const [i, j, strength] of tied) this.arc(i, j, strength, "");
    if (error.length === 2) this.arc(...error, pairs.find(([i, j]) => i === error[0] && j === error[1])?.[2] ?? 0, "wrong");
  }

  arc(i, j, strength, name) {
    const [x, y] = this.places[i], [u, v, tall] = this.places[j];
    const width = Math.max(THIN, THICK * strength / this.most, name ? 2.5 : 0);
    const rise = y === v ? Math.min(9 + Math.abs(u - x) * 0.09, 22) : 12;
    const path = y === v
      ? `M${x} ${y - 3}C${x + (u - x) * 0.15} ${y - 3 - rise} ${u - (u - x) * 0.15} ${y - 3 - rise} ${u} ${y - 3}`
      : `M${x} ${y + tall + 2}C${x} ${y + tall + 16} ${u} ${v - 18} ${u} ${v - 3}`;
    const made = draw("path", this.svg, { d: path, "stroke-width": width.toFixed(2), class: name });
    draw("title", made, {}).textContent = `${i + 1} and ${j + 1}: ${strength.toFixed(3)} nats`;
  }

  draw_meter(clock, low, high) {
    const y = value => 58 - 54 * (value - low) / (high - low);
    const x = step => 1000 * step / Math.max(clock, 1);
    this.x = x;
    this.plot.replaceChildren();
    const meters = [0, ...this.of.steps.map(step => step[2])];
    const parts = [], dead = [];
    meters.forEach((value, step) => {
      if (value === null) {
        dead.push(step);
        if (step && meters[step - 1] !== null) parts.push(`H${x(step)}`);
        return;
      }
      parts.push(`${parts.length && meters[step - 1] !== null ? `H${x(step)}V` : `M${x(step)} `}${y(value)}`);
    });
    const last = meters[meters.length - 1];
    if (last !== null) parts.push(`H${x(clock)}`);
    for (const step of dead) {
      const until = step === meters.length - 1 ? clock : step + 1;
      draw("rect", this.plot, { class: "dead", x: x(step), y: 0, width: Math.max(x(until) - x(step), 4), height: 62 });
    }
    const still = { "vector-effect": "non-scaling-stroke" };
    draw("line", this.plot, { class: "zero", x1: 0, x2: 1000, y1: y(0), y2: y(0), ...still });
    draw("path", this.plot, { class: "line", d: parts.join(""), ...still });
    this.head = draw("line", this.plot, { class: "head", x1: 0, x2: 0, y1: 0, y2: 62, ...still });
  }

  tell(clock) {
    const { steps } = this.of, now = this.at ? steps[this.at - 1][0] : 0, last = steps.length ? steps[steps.length - 1][0] : 0;
    const done = this.at === steps.length;
    const where = done && clock > this.at ? `done in ${plural(this.at, "step")}`
      : `step ${now} of ${last}`;
    this.state.textContent = `${where} \u00b7 ${this.left ? `${this.left} hidden` : "all revealed"}`;
    const meter = this.at ? steps[this.at - 1][2] : 0, own = this.data.measured === "model";
    if (this.data.measured) this.explain(meter, done);
    if (!this.meter) return;
    this.lost.textContent = meter === null ? "\u221e nats lost" : `${nats(meter)} nats lost`;
    this.about.textContent = own ? "so far, by the model's own probabilities, one token at a time"
      : meter === null ? "impossible: no valid completion exists"
      : this.of.revised ? "of the visible tokens"
      : meter < -0.005 ? "below 0: this sequence is more probable in the language than under the sampler"
      : done ? "contribution of this sequence to the divergence" : "so far, by sampling tokens in parallel";
    this.meter.classList.toggle("lost", meter === null);
    this.head.setAttribute("transform", `translate(${this.x(clock)} 0)`);
  }

  explain(meter, done) {
    const { steps, impossible, why } = this.of;
    this.why.classList.toggle("wrong", meter === null);
    if (meter === null) {
      this.why.replaceChildren();
      make("strong", "", this.why, this.at === impossible + 1 ? "Impossible from this step on: " : `Impossible since step ${steps[impossible][0]}: `);
      this.why.append(`${why}.`);
      return;
    }
    const pairs = this.at ? steps[this.at - 1][3] : [];
    const count = this.fresh.length;
    const own = this.data.measured === "model";
    this.why.textContent = done ? (own ? "Arcs and loss come from the model itself, not from a language." : "This sequence is possible in the language.")
      : !this.at ? "All positions are hidden, except given tokens."
      : this.data.joint && count > 1 ? `${count} tokens were sampled from one joint distribution: they are compatible.`
      : count < 2 ? "Only one token was sampled, so no conflict is possible."
      : pairs.length ? `${count} tokens were sampled independently. Arcs connect dependent tokens; here they happen to be compatible.`
      : `${count} tokens were sampled independently. They do not depend on each other: no loss.`;
  }

  words() {
    if (!this.at) return `${this.data.name}: all positions are hidden.`;
    const [step, events] = this.of.steps[this.at - 1];
    const shown = events.filter(([, token]) => token !== null).map(([place, token]) => `${this.symbol(token).slice(0, 40)} at ${place + 1}`);
    const hidden = events.filter(([, token]) => token === null).length;
    const more = shown.length - LISTED;
    const revealed = more > 1 ? [...shown.slice(0, LISTED), `${more} more`] : shown;
    const taken = hidden ? ` ${plural(hidden, "token")} hidden again.` : "";
    const state = this.dead ? ` The sequence is impossible: ${this.of.why}.` : "";
    return `${this.data.name}, step ${step}: revealed ${listed(revealed) || "nothing"}.${taken}${state}`;
  }

  read() {
    this.row.setAttribute("aria-label", `The sequence: ${this.token.map(token => token === null ? "hidden" : this.symbol(token).slice(0, 40)).join(" ")}`);
  }
}

class Player {
  constructor(box) {
    this.box = box;
    this.data = JSON.parse(box.querySelector("script").textContent);
    this.part = name => box.querySelector(`[data-do="${name}"]`);
    this.range = box.querySelector("input");
    this.spoken = box.querySelector(".say");
    const runs = box.querySelector(".runs");
    runs.classList.toggle("two", this.data.runs.length > 1);
    let most = 0;
    for (const run of this.data.runs) for (const row of run.rows) for (const step of row.steps) for (const pair of step[3]) most = Math.max(most, pair[2]);
    this.runs = this.data.runs.map(data => new Run(data, runs, most || 1));
    this.legend(most);
    this.rows(box.querySelector('[data-set="row"]'));
    this.speeds(box.querySelector('[data-set="speed"]'));
    box.querySelector('[data-set="by"]').addEventListener("change", event => { box.dataset.by = event.target.value; this.scale(); });
    for (const button of box.querySelectorAll("button")) button.addEventListener("click", () => this.act(button.dataset.do));
    this.range.addEventListener("input", () => { this.pause(); this.go(Number(this.range.value)); });
    const whole = box.parentElement.tagName === "MAIN"; // a page with only a player listens everywhere
    (whole ? document : box).addEventListener("keydown", event => this.key(event));
    addEventListener("beforeprint", () => { this.kept ??= this.clock; this.pause(); this.go(this.end); });
    addEventListener("afterprint", () => { this.go(this.kept ?? this.clock); this.kept = undefined; });
    this.choose(this.data.open);
  }

  rows(select) {
    this.data.runs[0].rows.forEach((row, index) => {
      const wrong = this.data.runs.map(run => run.rows[index].impossible).find(step => step !== null && step !== undefined);
      const verdict = this.data.runs[0].measured !== "language" ? "" : wrong === undefined ? ": possible" : ": impossible";
      const option = make("option", "", select, `${row.number}${verdict}`);
      option.value = index;
    });
    select.addEventListener("change", () => { this.pause(); this.choose(Number(select.value)); });
    this.row = select;
  }

  speeds(select) {
    for (const speed of SPEEDS) make("option", "", select, `${speed} / s`).value = speed;
    select.addEventListener("change", () => { this.speed = Number(select.value); });
    this.pace = select;
  }

  choose(index) {
    this.row.value = index;
    const rows = this.data.runs.map(run => run.rows[index]);
    this.end = Math.max(...rows.map(row => row.steps.length));
    this.errors = rows.map(row => row.impossible).filter(step => step !== null && step !== undefined).map(step => step + 1);
    const meters = rows.flatMap(row => [0, ...row.steps.map(step => step[2]).filter(value => value !== null)]);
    this.range.max = this.end;
    const low = Math.min(...meters), high = Math.max(...meters, low + SPAN);
    this.runs.forEach(run => run.choose(index, this.end, low, high));
    const marks = this.box.querySelector(".marks");
    marks.replaceChildren();
    for (const at of this.errors) make("i", "", marks).style.left = `${100 * at / Math.max(this.end, 1)}%`;
    this.part("error").disabled = !this.errors.length;
    this.speed = SPEEDS.find(speed => this.end / speed <= SECONDS) ?? SPEEDS[SPEEDS.length - 1];
    this.pace.value = this.speed;
    this.go(this.errors.length ? Math.min(...this.errors) : this.end);
  }

  go(clock) {
    this.clock = Math.max(0, Math.min(clock, this.end));
    this.range.value = this.clock;
    for (const run of this.runs) run.go(this.clock);
    this.box.dataset.clock = this.clock;
    if (!this.playing || this.errors.includes(this.clock)) this.say();
  }

  say() {
    const words = this.runs.map(run => run.words()).join(" ");
    this.spoken.textContent = words;
    this.range.setAttribute("aria-valuetext", `step ${this.clock} of ${this.end}`);
    for (const run of this.runs) run.read();
  }

  act(what) {
    if (what === "play") return this.playing ? this.pause() : this.play();
    this.pause();
    this.go({ home: 0, back: this.clock - 1, next: this.clock + 1, end: this.end, error: Math.min(...this.errors) }[what]);
  }

  key(event) {
    const inside = event.target.tagName, range = inside === "INPUT";
    if (inside === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) return;
    const what = { " ": "play", ArrowLeft: "back", ArrowRight: "next", Home: "home", End: "end" }[event.key];
    if (!what || (event.key === " " && inside === "BUTTON") || (range && event.key !== " ")) return;
    event.preventDefault();
    this.act(what);
  }

  play() {
    if (this.clock >= this.end) this.go(0);
    const playing = this.playing = {};  // the running loop: a paused one stops
    this.button("Pause", "\u275a\u275a Pause");
    let last = null, due = 0;
    const frame = now => {
      if (this.playing !== playing) return;
      due += last === null ? 0 : (now - last) * this.speed / 1000;
      last = now;
      if (due >= 1) {
        this.go(this.clock + Math.floor(due));
        due %= 1;
      }
      if (this.clock >= this.end) return this.pause();
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  pause() {
    if (!this.playing) return;
    this.playing = null;
    this.button("Play", "\u25b6\ufe0e Play");
    this.say();
  }

  button(name, text) {
    this.part("play").setAttribute("aria-label", name);
    this.part("play").textContent = text;
  }

  legend(most) {
    const legend = this.box.querySelector(".legend");
    const item = (text, build) => {
      const made = make("span", "", legend);
      build(made);
      make("span", "", made, text);
      return made.lastChild;
    };
    const cell = name => parent => make("i", `cell ${name}`, parent).setAttribute("aria-hidden", "true");
    item("hidden", cell(""));
    item("new in this step", cell("on new"));
    this.scaled = item("", parent => make("i", "scale", parent).setAttribute("aria-hidden", "true"));
    this.scale();
    if (this.data.runs.some(run => run.rows.some(row => row.given.length))) item("given", cell("given"));
    if (most) item(`statistically dependent (thicker: more, maximum ${most.toFixed(2)} nats)`, parent => {
      const svg = draw("svg", parent, { viewBox: "0 0 48 16", "aria-hidden": "true" });
      draw("path", svg, { d: "M4 13C12 1 36 1 44 13" });
    });
    if (this.data.runs.some(run => run.rows.some(row => row.guilty?.length))) item("contradictory", cell("on guilty"));
    if (this.data.runs.some(run => run.rows.some(row => row.because?.length))) item("makes them contradictory", cell("on because"));
  }

  scale() { this.scaled.textContent = this.box.dataset.by === "step" ? "first to last step" : "certain to improbable when sampled"; }
}

const begin = () => { for (const box of document.querySelectorAll(".player")) new Player(box); };
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin); else begin();
})();
