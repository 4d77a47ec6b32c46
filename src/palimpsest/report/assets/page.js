// The document: everything is built from the payload, and every text of the study is put in as text, never as markup.
"use strict";

palimpsest.page = (() => {
  const { figures } = palimpsest;
  const { number } = figures;
  const payload = JSON.parse(document.getElementById("payload").textContent);
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  // Of several studies, the one that there is most to see of.
  const finished = (s) => s.points.reduce((n, p) => n + [...p.st].filter((status) => status === "d").length, 0);
  const most = (studies) => studies.reduce((a, b) => (finished(b) > finished(a) ? b : a), studies[0]);
  let study = most(payload.studies.filter((s) => s.drawn && finished(s))) || most(payload.studies);
  let choice = null;
  let running = new Set();
  let plotly = false;
  let drawn = []; // the panels on the page
  let watcher = null;

  function h(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
      else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((c) => c !== null && c !== undefined));
    return element;
  }
  function svg(tag, attributes, text) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  }
  const fill = (element, ...children) => element.replaceChildren(...children.filter(Boolean));
  const count = (n) => n.toLocaleString("en-GB");
  const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
  function duration(seconds) {
    if (seconds === null || seconds === undefined) return "–";
    if (seconds < 90) return `${Math.round(seconds)} s`;
    if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
    return `${(seconds / 3600).toFixed(1)} h`;
  }
  const when = (text) => {
    const date = new Date(text);
    return Number.isNaN(date.getTime()) ? String(text) : date.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
  };

  // Light or dark -------------------------------------------------------------------------------------------------
  const system = matchMedia("(prefers-color-scheme: dark)");
  const remembered = () => { try { return localStorage.getItem("palimpsest-theme"); } catch { return null; } };
  const isDark = () => {
    const asked = document.documentElement.dataset.theme;
    return asked ? asked === "dark" : system.matches;
  };
  function look() {
    const probe = document.body.appendChild(h("span", { hidden: true }));
    const colour = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
    const found = { ink: colour("ink"), soft: colour("soft"), line: colour("line"), grid: colour("grid-line"), sheet: colour("sheet"),
      font: getComputedStyle(document.documentElement).getPropertyValue("--sans").trim() };
    probe.remove();
    return found;
  }
  function startTheme() {
    if (remembered()) document.documentElement.dataset.theme = remembered();
    $("theme").addEventListener("click", () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("palimpsest-theme", document.documentElement.dataset.theme); } catch { /* a private window */ }
      renderFigures();
      palimpsest.live?.redraw();
    });
    system.addEventListener("change", renderFigures);
  }

  // Tables --------------------------------------------------------------------------------------------------------
  function tableOf(columns, rows, { right = [], tall = false, label = "" } = {}) {
    const aligned = (name) => (right.includes(name) ? { class: "right" } : {});
    const short = columns.map((name, i) => !right.includes(name) && rows.every((row) => typeof row[i] === "string" && row[i].length <= 18));
    const body = h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell, i) => h("td", short[i] ? { class: "short" } : aligned(columns[i]), cell)))));
    const head = h("thead", {}, h("tr", {}, ...columns.map((c) => h("th", { scope: "col", ...aligned(c) }, c))));
    return h("div", { class: `scroll${tall ? " tall" : ""}${columns.length > 11 ? " dense" : ""}`, tabindex: "0", role: "region", "aria-label": label || columns.join(", ") },
      h("table", {}, head, body));
  }

  // Head of the page ----------------------------------------------------------------------------------------------
  function tally() {
    const states = new Map();
    study.points.forEach((p) => p.id.forEach((id, i) => states.set(id, p.st[i])));
    const found = { d: 0, f: 0, m: 0, total: states.size };
    for (const state of states.values()) found[state] += 1;
    return found;
  }
  function facts(list, pairs) {
    fill(list, ...pairs.filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
  }
  function renderHead() {
    $("title").textContent = study.title;
    document.title = `${study.title} · Palimpsest`;
    $("description").textContent = study.description;
    $("description").hidden = !study.description;
    const done = tally();
    facts($("facts"), [
      ["Encoder", study.encoder],
      [study.tasks.length === 1 ? "Task" : "Tasks", study.tasks.length > 4 ? count(study.tasks.length) : study.tasks.map((t) => t.label).join(", ")],
      ["Trials finished", `${count(done.d)} of ${count(done.total)}`],
      done.f ? ["Failed", count(done.f)] : null,
      ["Computing time", duration(study.provenance.seconds)],
    ]);
  }
  function renderContents() {
    const sections = [...document.querySelectorAll("main > section")].filter((s) => !s.hidden);
    fill($("contents"), h("ul", {}, ...sections.map((s) => h("li", {}, h("a", { href: `#${s.id}` }, s.querySelector("h2").textContent)))));
  }

  // The grid of trials --------------------------------------------------------------------------------------------
  function stateOf(point) {
    const all = point.st.length;
    const done = [...point.st].filter((s) => s === "d").length;
    const failed = [...point.st].filter((s) => s === "f").length;
    const now = point.id.filter((id, i) => point.st[i] !== "d" && running.has(id)).length;
    const words = [`${done} of ${all} finished`, now ? `${now} running` : "", failed ? `${failed} failed` : ""];
    return { all, done, failed, now, text: `${point.name}: ${words.filter(Boolean).join(", ")}` };
  }
  function paint(cell, point) {
    const state = stateOf(point);
    cell.className = `cell${state.now ? " running" : state.failed ? " failed" : ""}`;
    cell.firstChild.style.height = `${(100 * state.done) / state.all}%`;
    cell.setAttribute("aria-label", `${cell.dataset.row}, ${state.text}`);
    cell.title = state.text;
  }
  let cells = [];
  let counters = [];
  function renderGrid() {
    fill($("grid-key"),
      ...[["finished", "cell sample", "100%"], ["running", "cell sample running", "0"], ["failed", "cell sample failed", "0"], ["missing", "cell sample", "0"]]
        .filter(([name]) => payload.live || name !== "running")
        .map(([name, looks, height]) => { const bar = h("i"); bar.style.height = height; return h("span", { class: "entry" }, h("span", { class: looks }, bar), name); }));
    const labels = { task: new Map(study.tasks.map((t) => [t.name, t.label])) };
    const rows = new Map();
    study.points.forEach((p, i) => {
      const key = JSON.stringify([p.e, p.t, p.s, p.p, p.l]);
      if (!rows.has(key)) rows.set(key, { p, indexes: [] });
      rows.get(key).indexes.push(i);
    });
    const manyProtocols = study.protocols.length > 1;
    const children = [];
    let last = null;
    cells = new Array(study.points.length);
    counters = [];
    for (const { p, indexes } of rows.values()) {
      if (p.e !== last) children.push(h("div", { class: "grid-title" }, (last = p.e)));
      const rest = [p.s, p.l, manyProtocols ? p.p : ""].filter(Boolean).join(", ");
      const name = `${labels.task.get(p.t)}, ${rest}`;
      const strip = h("div", { class: `cells${indexes.length > 60 ? " dense" : ""}` });
      strip.style.flexBasis = `${54 * indexes.length}px`;
      indexes.forEach((i) => {
        const cell = h("div", { class: "cell", role: "img", tabindex: "-1", "data-row": name, "data-point": i }, h("i"));
        cells[i] = cell;
        paint(cell, study.points[i]);
        strip.append(cell);
      });
      const counter = h("span", { class: "count" });
      counters.push({ counter, indexes });
      children.push(h("div", { class: "row" },
        h("span", { class: "label", title: name }, h("b", {}, labels.task.get(p.t)), ` ${rest}`), strip, counter));
    }
    fill($("grid"), ...children);
    if (cells[0]) cells[0].tabIndex = 0;
    renderCounts();
  }
  function renderCounts() {
    for (const { counter, indexes } of counters) {
      const sum = (f) => indexes.reduce((n, i) => n + f(study.points[i]), 0);
      counter.textContent = `${count(sum((p) => p.st.replace(/[^d]/g, "").length))} / ${count(sum((p) => p.st.length))}`;
    }
    const done = tally();
    const absent = done.total - done.d;
    $("progress-note").textContent = absent
      ? `${plural(absent, "trial")} of ${count(done.total)} ${absent === 1 ? "is" : "are"} missing${done.f ? `, ${count(done.f)} of them because they failed` : ""}. A box is a point of the study; it fills as its trials finish.`
      : `All ${count(done.total)} trials are finished.`;
  }
  function startGrid() {
    const grid = $("grid");
    const say = (target) => { if (target.dataset?.point) $("grid-focus").textContent = target.getAttribute("aria-label"); };
    grid.addEventListener("focusin", (e) => say(e.target));
    grid.addEventListener("pointerover", (e) => say(e.target));
    grid.addEventListener("click", (e) => { const cell = e.target.closest(".cell"); if (cell) showPoint(Number(cell.dataset.point)); });
    grid.addEventListener("keydown", (e) => {
      const cell = e.target.closest(".cell");
      if (!cell) return;
      const strip = [...cell.parentNode.children];
      const all = [...grid.querySelectorAll(".cells")];
      const [r, c] = [all.indexOf(cell.parentNode), strip.indexOf(cell)];
      const next = { ArrowRight: [r, c + 1], ArrowLeft: [r, c - 1], ArrowDown: [r + 1, c], ArrowUp: [r - 1, c] }[e.key];
      if (e.key === "Enter" || e.key === " ") { e.preventDefault(); showPoint(Number(cell.dataset.point)); return; }
      const row = next && all[next[0]];
      const target = row && row.children[Math.min(next[1], row.children.length - 1)];
      if (!target) return;
      e.preventDefault();
      cell.tabIndex = -1;
      target.tabIndex = 0;
      target.focus();
    });
  }
  function renderFailures() {
    const shown = study.failures.slice(0, 50);
    const task = new Map(study.tasks.map((t) => [t.name, t.label]));
    fill($("failures"), study.failures.length ? h("h3", {}, `${plural(study.failures.length, "trial")} failed`) : null,
      ...shown.map((f) => h("div", { class: "failure" }, `${task.get(f.t) || f.t}, ${f.s}, ${f.name}, trial ${f.trial}: ${f.reason}`)),
      shown.length < study.failures.length ? h("p", { class: "note" }, `and ${count(study.failures.length - shown.length)} more; the CSV has all of them`) : null);
  }

  // Switches ------------------------------------------------------------------------------------------------------
  function freshChoice() {
    return { tasks: new Set(study.tasks.map((t) => t.name)), sizes: new Set(study.sizes.map((s) => s.name)),
      protocols: new Set(study.protocols.map((p) => p.name)), experiments: new Set(study.experiments), metric: "own", interval: "t", raw: false };
  }
  function chips(name, key, items) {
    if (items.length < 2) return null;
    return h("fieldset", { id: `choose-${key}` }, h("legend", {}, name), ...items.map(({ value, label, title }) =>
      h("label", { class: "chip", title: title || label }, h("input", { type: "checkbox", checked: choice[key].has(value), value,
        on: { change: (e) => { e.target.checked ? choice[key].add(value) : choice[key].delete(value); renderFigures(); renderSummary(); } } }), h("span", {}, label))));
  }
  function select(name, key, items) {
    return h("label", { class: "field" }, h("span", {}, name), h("select", { id: `choose-${key}`,
      on: { change: (e) => { choice[key] = e.target.value; renderFigures(); renderSummary(); } } },
      ...items.map(([value, label]) => h("option", { value, selected: choice[key] === value }, label))));
  }
  function renderControls() {
    fill($("controls"),
      chips("Tasks", "tasks", study.tasks.map((t) => ({ value: t.name, label: t.label }))),
      chips("Training examples", "sizes", study.sizes.map((s) => ({ value: s.name, label: s.name }))),
      chips("Protocols", "protocols", study.protocols.map((p) => ({ value: p.name, label: p.name, title: p.summary }))),
      study.points.every((p) => p.e === p.p) ? null : chips("Experiments", "experiments", study.experiments.map((e) => ({ value: e, label: e }))),
      select("Metric", "metric", [["own", "each task’s own"], ...study.metrics.map((m) => [m.name, m.label])]),
      select("Bars", "interval", [["t", "95 % t interval"], ["bootstrap", "95 % bootstrap interval"], ["none", "none"]]),
      h("fieldset", { id: "choose-raw" }, h("legend", {}, "Single trials"), h("label", { class: "chip" }, h("input", { type: "checkbox",
        on: { change: (e) => { choice.raw = e.target.checked; renderFigures(); } } }), h("span", {}, "show"))));
  }

  // Figures: built when they are about to be seen -----------------------------------------------------------------
  const CONFIG = { displaylogo: false, responsive: true, displayModeBar: "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d", "pan2d"] };
  function renderFigures() {
    const dark = isDark();
    const looks = look();
    if (watcher) watcher.disconnect();
    watcher = new IntersectionObserver((entries) => entries.forEach((e) => {
      const panel = drawn.find((d) => d.plot === e.target);
      if (panel) { panel.near = e.isIntersecting; if (panel.near) queue(panel); }
    }), { rootMargin: "300px" });
    const old = new Map(drawn.map((d) => [d.key, d]));
    drawn = [];
    const built = figures.build(study, choice, dark);
    const blocks = built.filter((f) => f.tasks.length).map((figure) => {
      const panels = figure.tasks.map((task) => place(old, `${figure.key} ${task.name}`, task.label,
        () => figures.panel(study, figures.build(study, choice, dark).find((f) => f.key === figure.key), task, choice, looks, dark)));
      return h("div", { class: "figure", "data-figure": figure.key }, h("h3", {}, figure.title),
        figure.key === "heads" ? h("p", { class: "note" }, headsNote(figure.lines[figure.lines.length - 1])) : key(figure, looks),
        h("div", { class: `panels${panels.length === 1 ? " one" : ""}` }, ...panels));
    });
    fill($("plots"), ...blocks, ...epochFigures(old, looks, dark));
    if (!blocks.length) fill($("plots"), h("p", { class: "note" }, "Nothing is chosen."));
    drawn.forEach((d) => watcher.observe(d.plot));
  }
  function headsNote(line) {
    const compared = line.indexes.some((i) => figures.intact(study, study.points[i]));
    return `${line.label}; ${compared ? "the difference to the intact encoder, over pairs of trials with the same seeds" : "the colour is the score without the head"}`;
  }
  function place(old, key, title, make) {
    const kept = old.get(key);
    const panel = kept ? Object.assign(kept, { make, stale: true }) : { key, make, stale: true, near: false, plot: h("div", { class: "plot", tabindex: "0", role: "group", "aria-label": `Figure: ${title}. Left and right arrows go through its points.` }), note: h("p", { class: "note" }) };
    if (!kept) listen(panel);
    drawn.push(panel);
    return h("div", { class: "panel" }, h("h4", {}, title), panel.plot, panel.note);
  }
  // One panel at a time, so that the page answers in between.
  const waiting = new Set();
  let drawing = false;
  function queue(panel) {
    if (!plotly || !panel.near || !panel.stale) return;
    waiting.add(panel);
    if (!drawing) { drawing = true; setTimeout(next); }
  }
  function next() {
    const panel = waiting.values().next().value;
    drawing = panel !== undefined;
    if (!drawing) return;
    waiting.delete(panel);
    draw(panel);
    setTimeout(next);
  }
  function draw(panel) {
    if (!plotly || !panel.near || !panel.stale) return;
    panel.stale = false;
    const made = panel.make();
    const notes = [made.thinned > 1 ? `One of ${made.thinned} trials is shown.` : "", made.cut ? "Some bars are longer than the frame." : ""];
    const nothing = made.other ? "None of the trials here has this metric." : "Nothing is finished here yet.";
    panel.note.textContent = made.empty ? nothing : notes.filter(Boolean).join(" ");
    panel.plot.classList.toggle("empty", made.empty);
    panel.made = made;
    panel.plot.style.height = made.rows && !made.empty ? `${70 + 34 * Math.max(made.rows, 3)}px` : "";
    if (made.empty) { // what was drawn before, for another choice or another study, must go
      if (panel.clicks) Plotly.purge(panel.plot);
      panel.clicks = undefined;
      return;
    }
    Plotly.react(panel.plot, made.data, made.layout, CONFIG);
    if (!panel.clicks) panel.clicks = panel.plot.on("plotly_click", (e) => { const i = e.points[0].customdata; if (typeof i === "number") showPoint(i); });
  }
  function listen(panel) {
    panel.plot.addEventListener("keydown", (e) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
      if (!step || !panel.made) return;
      const all = panel.made.data.flatMap((d, c) => (Array.isArray(d.customdata) && d.type === "scatter" ? d.customdata.map((i, n) => [c, n, i]) : []));
      if (!all.length) return;
      e.preventDefault();
      panel.at = ((panel.at ?? (step > 0 ? -1 : 0)) + step + all.length) % all.length;
      const [curveNumber, pointNumber, index] = all[panel.at];
      Plotly.Fx.hover(panel.plot, [{ curveNumber, pointNumber }]);
      showPoint(index);
    });
  }
  function key(figure, looks) {
    const dashes = { solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3", longdash: "10 4" };
    const shapes = { circle: "M12 4a4 4 0 1 0 .01 0", square: "M8.5 4.5h7v7h-7z", diamond: "M12 3l5 5-5 5-5-5z", "triangle-up": "M12 3l5 9H7z",
      "triangle-down": "M12 13l5-9H7z", cross: "M10.5 3h3v3.5H17v3h-3.5V13h-3V9.500H7v-3h3.5z", x: "M8 3l4 3.500L16 3l1.500 1.500L14 8l3.500 3.500L16 13l-4-3.500L8 13l-1.500-1.500L10 8 6.500 4.500z" };
    const line = (colour, dash, width) => {
      const picture = svg("svg", { width: 24, height: 16, viewBox: "0 0 24 16", "aria-hidden": "true" });
      picture.append(svg("line", { x1: 0, x2: 24, y1: 8, y2: 8, stroke: colour, "stroke-width": width, "stroke-dasharray": dash }));
      return picture;
    };
    const entries = figure.lines.slice(0, 24).map((line) => {
      const picture = svg("svg", { width: 24, height: 16, viewBox: "0 0 24 16", "aria-hidden": "true" });
      if (!figure.apart && !figure.names) picture.append(svg("line", { x1: 0, x2: 24, y1: 8, y2: 8, stroke: line.color, "stroke-width": 2, "stroke-dasharray": dashes[line.dash] }));
      picture.append(svg("path", { d: shapes[line.symbol], fill: line.color }));
      return h("span", { class: "entry" }, picture, line.label);
    });
    const also = (name, ...looks) => entries.push(h("span", { class: "entry" }, line(...looks), name));
    if (figure.apart && figure.lines.length === 1) also("mean of the permutations", figure.lines[0].color, "", 1.5);
    if (figure.direct) also("direct", looks.soft, "2 3", 1.2);
    if (figure.baselines && study.points.some((p) => p.k === "incremental")) {
      also("full model", looks.soft, "7 4", 1.5);
      also("embeddings only", looks.soft, "2 3", 1.5);
    }
    return h("div", { class: "key" }, ...entries);
  }
  let epochsOpen = false;
  function epochFigures(old, looks, dark) {
    const shown = study.points.filter((p) => p.k === "incremental" && p.ep.length > 1 && figures.chosen(p, choice));
    const pairs = figures.unique(shown.map((p) => JSON.stringify([p.t, p.s]))).map((text) => JSON.parse(text));
    if (!pairs.length) return [];
    const panels = pairs.map(([t, s]) => {
      const task = study.tasks.find((x) => x.name === t);
      return place(old, `epochs ${t} ${s}`, `${task.label}, ${s}`, () => figures.epochs(study, task, s, choice, looks, dark));
    });
    return [h("details", { class: "figure", "data-figure": "epochs", open: epochsOpen, on: { toggle: (e) => { epochsOpen = e.target.open; } } },
      h("summary", {}, "Over the epochs: was training long enough?"),
      h("p", { class: "note" }, "Means over the trials of a point; the more pretrained layers are preserved, the lighter the line."),
      h("div", { class: `panels${panels.length === 1 ? " one" : ""}` }, ...panels))];
  }

  // The trials behind a point -------------------------------------------------------------------------------------
  let shownPoint = null;
  function showPoint(index) {
    shownPoint = index;
    const point = study.points[index];
    const task = study.tasks.find((t) => t.name === point.t);
    const metric = figures.metricOf(study, point.t, choice);
    const found = figures.statistics(point, metric, choice);
    const names = Object.keys(point.v);
    const state = { d: "finished", f: "failed", m: "missing" };
    const columns = ["trial", "state", ...names.map((n) => figures.metricLabel(study, n)), "seconds", "identity"];
    const rows = point.id.map((id, i) => [String(point.n[i]), point.st[i] !== "d" && running.has(id) ? "running" : state[point.st[i]],
      ...names.map((n) => number(point.v[n][i])), number(point.sec[i], 1), h("code", {}, id.slice(0, 12))]);
    const summary = found ? `${figures.metricLabel(study, metric)} ${number(found.mean)}${found.low === null ? "" : ` (${number(found.low)} to ${number(found.high)})`}, n = ${found.n} of ${point.id.length}` : "nothing is finished here yet";
    const panel = $("point");
    panel.hidden = false;
    fill(panel, h("header", {}, h("h3", {}, `${task.label}, ${point.s}, ${point.name}${point.l ? `, ${point.l}` : ""}`),
      h("button", { type: "button", "aria-label": "Close", on: { click: hidePoint } }, "✕")),
      h("p", { class: "note" }, `${point.e}, protocol ${point.p}: ${summary}`),
      tableOf(columns, rows, { right: columns.slice(2, -1), label: "Trials behind the point" }));
  }
  function hidePoint() { shownPoint = null; $("point").hidden = true; }

  // The summary table, made from the points -----------------------------------------------------------------------
  let summaryOpen = false;
  function summaryRows() {
    return study.points.map((p, i) => [p, i]).filter(([p]) => figures.chosen(p, choice));
  }
  function renderSummary() {
    const many = study.experiments.length > 1;
    const protocols = study.protocols.length > 1;
    const columns = [...(many ? ["Experiment"] : []), "Task", "Size", ...(protocols ? ["Protocol"] : []), "Point", "Metric", "Mean", choice.interval === "bootstrap" ? "95 % bootstrap" : "95 % interval", "n"];
    const rows = summaryRows();
    const open = summaryOpen || rows.length <= 40;
    const task = new Map(study.tasks.map((t) => [t.name, t.label]));
    const body = () => tableOf(columns, rows.slice(0, 1500).map(([p, i]) => {
      const metric = figures.metricOf(study, p.t, choice);
      const found = figures.statistics(p, metric, choice);
      return [...(many ? [p.e] : []), task.get(p.t), p.s, ...(protocols ? [p.p] : []),
        h("button", { type: "button", on: { click: () => showPoint(i) } }, `${p.name}${p.l && p.k !== "localized" ? `, ${p.l}` : ""}`),
        metric ? figures.metricLabel(study, metric) : "–", number(found && found.mean),
        found && found.low !== null ? `(${number(found.low)}, ${number(found.high)})` : "–",
        found && found.n === p.id.length ? String(found.n) : `${found ? found.n : 0} of ${p.id.length}`];
    }), { right: ["Mean", "95 % interval", "95 % bootstrap", "n"], tall: true, label: "Means of all points" });
    const holder = h("details", { open, on: { toggle: (e) => { summaryOpen = e.target.open; if (summaryOpen && holder.children.length === 1) holder.append(body()); } } },
      h("summary", {}, `Means of all ${plural(rows.length, "point")}`));
    if (open) holder.append(body());
    if (rows.length > 1500) holder.append(h("p", { class: "note" }, "The first 1,500 are shown; the CSV has all of them."));
    fill($("summary-table"), holder);
  }
  function oneTable(t) {
    return [h("h3", {}, t.title), t.rows.length ? tableOf(t.columns, t.rows, { right: t.right, label: t.title, tall: t.rows.length > 20 }) : null,
      ...t.note.split("\n").filter(Boolean).map((line) => h("p", { class: "note" }, line))];
  }
  function renderTables() {
    fill($("other-tables"), ...study.tables.flatMap(oneTable));
    fill($("downloads"),
      h("button", { type: "button", id: "csv-trials", on: { click: () => save("trials.csv", trialsCsv()) } }, "Trials as CSV"),
      h("button", { type: "button", id: "csv-points", on: { click: () => save("points.csv", pointsCsv()) } }, "Means as CSV"),
      h("button", { type: "button", id: "yaml-study", on: { click: () => save("study.yaml", study.yaml) } }, "Study as YAML"));
  }
  const quoted = (value) => { const text = value === null || value === undefined ? "" : String(value); return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text; };
  const csv = (rows) => rows.map((row) => row.map(quoted).join(",")).join("\n") + "\n";
  function trialsCsv() {
    const metrics = study.metrics.map((m) => m.name);
    const state = { d: "finished", f: "failed", m: "missing" };
    return csv([["study", "experiment", "kind", "task", "size", "protocol", "point", "series", "trial", "id", "status", "seconds", ...metrics],
      ...study.points.flatMap((p) => p.id.map((id, i) => [study.name, p.e, p.k, p.t, p.s, p.p, p.name, p.l, p.n[i], id, state[p.st[i]], p.sec[i],
        ...metrics.map((m) => (p.v[m] ? p.v[m][i] : null))]))]);
  }
  function pointsCsv() {
    return csv([["study", "experiment", "kind", "task", "size", "protocol", "point", "series", "metric", "n", "planned", "mean", "t_low", "t_high", "bootstrap_low", "bootstrap_high"],
      ...study.points.flatMap((p) => Object.entries(p.stat).map(([m, s]) => [study.name, p.e, p.k, p.t, p.s, p.p, p.name, p.l, m, s[0], p.id.length, ...s.slice(1)]))]);
  }
  function save(name, text) {
    const link = h("a", { href: URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" })), download: `${study.name.replace(/[^\w.-]+/g, "-")}-${name}` });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  // The rest ------------------------------------------------------------------------------------------------------
  function renderClaims() {
    const { verdicts, tables } = study.claims;
    $("claims").hidden = !verdicts.length && !tables.length;
    const many = figures.unique(verdicts.map((v) => v.protocol)).length > 1;
    fill($("claims-list"), ...verdicts.map((v) => h("div", { class: "claim" },
      h("p", {}, h("span", { class: `verdict ${v.verdict.split(" ")[0]}` }, v.verdict), ` ${v.claim}. ${v.text}`), many ? h("p", { class: "note" }, `protocol ${v.protocol}`) : null)),
      ...tables.map(oneTable).flat());
  }
  function renderSchematic() {
    $("interventions").hidden = !study.schematic.some((panel) => panel.rows.some((row) => row.layers.some((l, x) => !l || l[0] !== x + 1 || l[1] || l[2].length)));
    $("removed").hidden = !study.schematic.some((panel) => panel.rows.some((r) => r.layers.includes(null)));
    fill($("schematic"), h("div", { class: "boxes" }, ...study.schematic.map((panel) => {
      const left = 8 + 6.2 * Math.max(...panel.rows.map((r) => Math.min(r.name.length, 34)));
      const depth = Math.max(...panel.rows.map((r) => r.layers.length));
      const picture = svg("svg", { width: left + 18 * depth + 4, height: 16 * panel.rows.length + 16, role: "img", viewBox: `0 0 ${left + 18 * depth + 4} ${16 * panel.rows.length + 16}` });
      picture.append(svg("title", {}, `What was done to the layers: ${panel.title}`));
      panel.rows.forEach((row, y) => {
        picture.append(svg("text", { x: 0, y: 16 * y + 11, class: "row-text" }, row.name.length > 34 ? `${row.name.slice(0, 33)}…` : row.name));
        const moved = row.layers.some((layer, x) => layer && layer[0] !== x + 1);
        row.layers.forEach((layer, x) => {
          const looks = !layer ? "gone" : layer[1] ? "fresh" : "pretrained";
          picture.append(svg("rect", { x: left + 18 * x, y: 16 * y + 1, width: 16, height: 13, rx: 2, class: `box ${looks}` }));
          if (!layer) return;
          const [source, fresh, heads] = layer;
          if (heads.length) picture.append(svg("rect", { x: left + 18 * x + 2, y: 16 * y + 2, width: 12, height: 11, rx: 1, class: "box fresh" }));
          const text = heads.join(",") || (moved && !fresh ? String(source) : "");
          if (text) picture.append(svg("text", { x: left + 18 * x + 8, y: 16 * y + 11, class: `box-text${fresh || heads.length ? " on-fresh" : ""}` }, text));
        });
      });
      for (let x = 0; x < depth; x++) if (depth <= 14 || x % 4 === 0) picture.append(svg("text", { x: left + 18 * x + 8, y: 16 * panel.rows.length + 11, class: "row-text", "text-anchor": "middle" }, x + 1));
      return h("div", { class: "wide" }, h("h3", {}, panel.title), picture, panel.rows.length < panel.of ? h("p", { class: "note" }, `${panel.rows.length} of ${panel.of} conditions`) : null);
    })));
  }
  function renderProvenance() {
    const p = study.provenance;
    const rows = p.runs.map((r) => [count(r.trials), r.device, r.precision, r.engine, duration(r.seconds), r.versions]);
    const encoders = p.encoders.map((e) => `${e.name}${e.parameters ? ` (${(e.parameters / 1e6).toFixed(1)} million parameters)` : ""}`).join(", ");
    fill($("provenance-body"),
      h("p", {}, p.runs.length ? `${encoders}. The first trial ended ${when(p.first)}, the last ${when(p.last)}; together they took ${duration(p.seconds)}.` : "Nothing has been run yet."),
      rows.length ? tableOf(["trials", "device", "precision", "engine", "time", "versions"], rows, { right: ["trials", "time"], label: "Where the trials were run" }) : null,
      ...study.protocols.filter((x) => x.summary).map((x) => h("p", { class: "note" }, h("b", {}, x.name), `: ${x.summary}`)));
  }
  function renderReproduce() {
    const copy = (text) => h("button", { type: "button", on: { click: (e) => navigator.clipboard?.writeText(text).then(() => { e.target.textContent = "Copied"; }) } }, "Copy");
    fill($("reproduce-body"), h("p", {}, "This command runs what is missing, and nothing that is finished:"), h("pre", { tabindex: "0" }, payload.command), copy(payload.command),
      h("p", {}, "The study, with everything that was set on the command line. Saved as study.yaml, with data files of one’s own beside it, it runs with ", h("code", {}, "palimpsest run study.yaml"), ":"),
      h("pre", { tabindex: "0" }, study.yaml), copy(study.yaml));
    $("colophon").textContent = `Palimpsest ${payload.version}; ${payload.live ? `live from ${payload.store}` : `made ${when(payload.made)} from ${payload.store}`}.`;
  }

  function render() {
    choice = freshChoice();
    hidePoint();
    renderHead();
    renderGrid();
    renderFailures();
    renderControls();
    renderFigures();
    renderSummary();
    renderTables();
    renderClaims();
    renderSchematic();
    renderProvenance();
    renderReproduce();
    renderContents();
  }

  // What the live page changes --------------------------------------------------------------------------------------
  function update(changes) {
    const target = payload.studies.find((s) => s.name === changes.study);
    if (!target) return;
    changes.points.forEach(([i, results]) => Object.assign(target.points[i], results));
    Object.assign(target, { failures: changes.failures, newest: changes.newest });
    if (changes.metrics) for (const t of target.tasks) t.metric = t.metric || changes.metrics[t.name] || null;
    if (target !== study) return;
    changes.points.forEach(([i]) => paint(cells[i], study.points[i]));
    renderHead();
    renderCounts();
    renderFailures();
    renderSummary();
    const touched = new Set(changes.points.map(([i]) => study.points[i].t));
    drawn.filter((d) => [...touched].some((t) => d.key.includes(t))).forEach((d) => { d.stale = true; queue(d); });
    if (shownPoint !== null && changes.points.some(([i]) => i === shownPoint)) showPoint(shownPoint);
  }
  function setRunning(ids) {
    const changed = new Set([...running].filter((id) => !ids.has(id)).concat([...ids].filter((id) => !running.has(id))));
    running = ids;
    if (changed.size) study.points.forEach((p, i) => { if (p.id.some((id) => changed.has(id))) paint(cells[i], p); });
  }

  palimpsest.plotlyIsHere = () => { plotly = true; drawn.forEach(queue); palimpsest.live?.redraw(); };

  function start() {
    startTheme();
    startGrid();
    document.addEventListener("keydown", (e) => { if (e.key === "Escape") hidePoint(); });
    $("controls").addEventListener("submit", (e) => e.preventDefault());
    if (payload.studies.length > 1) {
      $("study-choice").append(h("label", {}, "Study ", h("select", { on: { change: (e) => { study = payload.studies[Number(e.target.value)]; render(); palimpsest.live?.render(); } } },
        ...payload.studies.map((s, i) => h("option", { value: i, selected: s === study }, s.title)))));
    }
    if (payload.live) $("live").hidden = false;
    else { // nothing moves in a report: what is missing is told after what is there
      $("progress-title").textContent = "What is missing";
      $("tables").after($("progress"));
    }
    render();
  }

  return { payload, start, update, setRunning, h, $, fill, facts, tableOf, count, duration, when, look, isDark, study: () => study, ready: () => plotly, CONFIG };
})();
palimpsest.page.start();
