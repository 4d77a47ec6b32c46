// From points to Plotly figures. Knows nothing of the document.
"use strict";
const palimpsest = {};

palimpsest.figures = (() => {
  const KINDS = {
    incremental: { title: "How many pretrained layers are needed", x: "Layers preserved (k)" },
    localized: { title: "Which layers matter", x: "Layers in the block", baselines: true },
    permutation: { title: "Does the order of the layers matter", x: "Permutation", baselines: true, apart: true },
    probing: { title: "What each layer knows: linear probes", x: "Layer probed" },
    heads: { title: "Which attention heads matter", x: "Head", y: "Layer" },
    custom: { title: "Variants", names: true },
    sequential: { title: "Does another task first help", names: true, direct: true },
    interleaved: { title: "Does learning tasks together help", names: true, direct: true },
  };
  const VIRIDIS = [[68, 1, 84], [71, 45, 123], [59, 82, 139], [44, 114, 142], [33, 145, 140], [40, 174, 128],
    [94, 201, 98], [173, 220, 48], [253, 231, 37]];
  const OKABE_ITO = {
    light: ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#3A3A3A", "#E69F00", "#56B4E9"],
    dark: ["#56B4E9", "#E69F00", "#3CC79A", "#E39CC4", "#DDDDDD", "#F0E442", "#FF8A3D"],
  };
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x"];
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
  const MOST_RAW = 1200; // single trials drawn in one panel

  // Plotly reads a little HTML in its texts: whatever comes from the study is shown letter by letter.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const number = (v, digits = 3) => (v === null || v === undefined ? "–" : v.toFixed(digits));
  const unique = (values) => [...new Set(values)];

  function viridis(share, dark) {
    const place = (dark ? 0.45 + 0.55 * share : 0.74 * share) * (VIRIDIS.length - 1);
    const low = Math.min(Math.floor(place), VIRIDIS.length - 2);
    const mix = VIRIDIS[low].map((c, i) => Math.round(c + (VIRIDIS[low + 1][i] - c) * (place - low)));
    return `rgb(${mix.join(",")})`;
  }

  function metricOf(study, task, choice) {
    const known = study.tasks.find((t) => t.name === task);
    return choice.metric === "own" ? known && known.metric : choice.metric;
  }

  function metricLabel(study, name) {
    const known = study.metrics.find((m) => m.name === name);
    return known ? known.label : name || "Score";
  }

  // Mean and bounds of a point by the chosen interval, or null while nothing is finished.
  function statistics(point, metric, choice) {
    const found = metric && point.stat[metric];
    if (!found || !found[0]) return null;
    const [n, mean, tLow, tHigh, bLow, bHigh] = found;
    const bounds = { t: [tLow, tHigh], bootstrap: [bLow, bHigh], none: [null, null] }[choice.interval];
    return { n, mean, low: bounds[0], high: bounds[1] };
  }

  function chosen(point, choice) {
    return choice.tasks.has(point.t) && choice.sizes.has(point.s) && choice.protocols.has(point.p) &&
      choice.experiments.has(point.e);
  }

  // The figures of a study: one per kind of experiment, a panel per task, a series per line.
  function build(study, choice, dark) {
    const has = new Set(study.points.map((p) => p.k));
    const figures = new Map();
    study.points.forEach((point, index) => {
      const key = point.k === "probing" && has.has("incremental") ? "incremental" : point.k;
      if (!figures.has(key)) figures.set(key, { key, all: [], ...(KINDS[key] || { title: key, names: true }) });
      if (chosen(point, choice)) figures.get(key).all.push(index);
    });
    return [...figures.values()].filter((figure) => !isBaseline(study, figure.key, has)).map((figure) => {
      const points = figure.all.map((i) => study.points[i]);
      const series = new Map();
      figure.all.forEach((i) => {
        const p = study.points[i];
        const key = JSON.stringify([p.e, p.s, p.p, p.l, p.k]);
        if (!series.has(key)) series.set(key, { key, e: p.e, s: p.s, p: p.p, l: p.l, k: p.k, indexes: [] });
        series.get(key).indexes.push(i);
      });
      const order = new Map(study.sizes.map((s, i) => [s.name, i]));
      const lines = [...series.values()].sort((a, b) => order.get(a.s) - order.get(b.s));
      dress(study, figure, lines, points, dark);
      return { ...figure, lines, tasks: study.tasks.filter((t) => points.some((p) => p.t === t.name)) };
    });
  }

  // A few incremental points beside another experiment are its baselines: they are lines there, and no figure here.
  function isBaseline(study, key, has) {
    if (key !== "incremental" || !["localized", "permutation", "heads"].some((kind) => has.has(kind))) return false;
    return study.points.every((p) => p.k !== "probing" && (p.k !== "incremental" || p.x === 0 || p.x === study.depth));
  }

  // Names and looks of the lines: only what tells them apart is said and shown.
  function dress(study, figure, lines, points, dark) {
    const several = (name) => unique(points.map((p) => p[name])).length > 1;
    const label = new Map(study.sizes.map((s) => [s.name, s.label]));
    const colourBy = figure.key === "localized" && several("l") ? "l" : several("s") ? "s" : "key";
    const values = unique(lines.map((line) => line[colourBy]));
    if (colourBy === "l") values.sort(); // preserved is blue and re-initialised is orange, as on paper
    const others = unique(lines.map((line) => JSON.stringify([line.e, line.p, line.k, colourBy === "l" ? line.s : line.l])));
    lines.forEach((line, i) => {
      const alike = unique(points.filter((p) => p.k === line.k).map((p) => p.e)).length > 1;
      const parts = [several("s") ? label.get(line.s) : "", alike ? line.e : "", several("p") ? line.p : "", line.l];
      if (line.k === "probing" && figure.key === "incremental") parts.push("probing layer k");
      line.label = unique(parts.filter(Boolean)).join(", ") || label.get(line.s);
      const rank = values.indexOf(line[colourBy]);
      const other = others.indexOf(
        JSON.stringify([line.e, line.p, line.k, colourBy === "l" ? line.s : line.l]));
      line.color = colourBy === "s" ? viridis(values.length > 1 ? rank / (values.length - 1) : 0.4, dark)
        : OKABE_ITO[dark ? "dark" : "light"][rank % 7];
      if (line.k === "probing" && figure.key === "incremental") line.color = OKABE_ITO[dark ? "dark" : "light"][1];
      line.dash = DASHES[(colourBy === "key" ? 0 : other) % DASHES.length];
      line.symbol = SYMBOLS[i % SYMBOLS.length];
    });
  }

  function hover(study, point, found, metric) {
    const finished = point.v[metric] ? point.v[metric].map((v, i) => [point.n[i], v]).filter((x) => x[1] !== null) : [];
    const shown = finished.slice(0, 8).map(([n, v]) => `${n}: ${number(v)}`).join("  ");
    const rest = finished.length > 8 ? ` … and ${finished.length - 8} more` : "";
    const interval = found.low === null ? "" : `<br>interval ${number(found.low)} to ${number(found.high)}`;
    const absent = point.st.length - finished.length;
    return `<b>${plain(point.name)}</b>, ${plain(point.s)}<br>` +
      `${plain(metricLabel(study, metric))} ${number(found.mean)}, n = ${found.n}${absent ? ` of ${point.st.length}` : ""}` +
      `${interval}<br>trials ${shown}${rest}`;
  }

  // Also tells whether there is something in other metrics only.
  function panel(study, figure, task, choice, look, dark) {
    const made = figure.key === "heads" ? heads(study, figure, task, choice, look, dark) : lined(study, figure, task, choice, look);
    const metrics = figure.lines.flatMap((line) => line.indexes).map((i) => study.points[i])
      .filter((p) => p.t === task.name).flatMap((p) => Object.keys(p.stat));
    return { ...made, other: metrics.length > 0 && !metrics.includes(metricOf(study, task.name, choice)) };
  }

  function lined(study, figure, task, choice, look) {
    const metric = metricOf(study, task.name, choice);
    const data = [];
    let thinned = 0;
    const names = figure.names ? unique(figure.lines.flatMap((line) => line.indexes).map((i) => study.points[i]).filter((p) => p.t === task.name).map((p) => p.x)) : [];
    figure.lines.forEach((line, number) => {
      const indexes = line.indexes.filter((i) => study.points[i].t === task.name);
      const aside = figure.names ? 0 : (number - (figure.lines.length - 1) / 2) * Math.min(0.08, 0.36 / figure.lines.length);
      const trace = { type: "scatter", name: plain(line.label), mode: figure.apart || figure.names ? "markers" : "lines+markers",
        x: [], y: [], hovertext: [], customdata: [], hoverinfo: "text",
        line: { color: line.color, dash: line.dash, width: 2 },
        marker: { color: line.color, symbol: line.symbol, size: figure.apart ? 7 : 8 } };
      const [place, value, bars] = figure.names ? ["y", "x", "error_x"] : ["x", "y", "error_y"];
      trace[bars] = { type: "data", symmetric: false, array: [], arrayminus: [], color: line.color, thickness: 1.2, width: 3 };
      const raw = [];
      indexes.forEach((i) => {
        const point = study.points[i];
        const found = statistics(point, metric, choice);
        if (!found) return;
        trace[place].push(figure.names ? names.indexOf(point.x) : point.x + aside);
        trace[value].push(found.mean);
        trace[bars].array.push(found.low === null ? 0 : found.high - found.mean);
        trace[bars].arrayminus.push(found.low === null ? 0 : found.mean - found.low);
        trace.hovertext.push(hover(study, point, found, metric));
        trace.customdata.push(i);
        if (choice.raw) point.v[metric].forEach((v, j) => v !== null && raw.push([i, j, v]));
      });
      if (!trace.x.length) return;
      if (raw.length) {
        const step = Math.ceil(raw.length / Math.max(100, MOST_RAW / figure.lines.length));
        thinned = Math.max(thinned, step);
        data.push(singles(study, names, raw.filter((_, n) => n % step === 0), line, aside));
      }
      data.push(trace);
    });
    const base = figure.baselines ? baselines(study, figure, task, choice, metric, look) : [];
    if (figure.apart) base.push(...data.filter((d) => d.error_y).map(overall));
    if (figure.direct) base.push(...direct(study, figure, task, choice, metric, look, names));
    if (figure.names) return named(look, metricLabel(study, metric), names, base, data, thinned);
    const layout = frame(look, figure.x, metricLabel(study, metric));
    if (figure.key === "incremental" || figure.key === "probing") {
      layout.xaxis = { ...layout.xaxis, dtick: study.depth > 14 ? undefined : 1, range: [-0.5, study.depth + 0.5] };
    } else {
      layout.xaxis.tickformat = "d";
    }
    if (figure.key === "localized") Object.assign(layout.xaxis, blocks(study, figure));
    const cut = bound(layout, [...base, ...data], "y");
    return { data: [...base, ...data], layout, thinned, cut, empty: !data.length };
  }

  // Names are long: they stand at the side, one below the other, and scores run to the right.
  function named(look, metric, names, base, data, thinned) {
    const layout = frame(look, metric, "");
    layout.xaxis.showgrid = true;
    Object.assign(layout.yaxis, { showgrid: false, range: [names.length - 0.5, -0.5], tickvals: names.map((_, i) => i), ticktext: names.map(wrapped) });
    layout.margin.r = 16;
    const cut = bound(layout, [...base, ...data], "x");
    return { data: [...base, ...data], layout, thinned, cut, rows: names.length, empty: !data.length };
  }

  // In lines of about twenty letters, three at most.
  function wrapped(name) {
    const lines = [""];
    for (const word of String(name).split(" ").flatMap((w) => w.match(/.{1,24}/gu) || [])) {
      const last = lines[lines.length - 1];
      if (last && last.length + word.length > 22) lines.push(word);
      else lines[lines.length - 1] = last ? `${last} ${word}` : word;
    }
    return lines.slice(0, 3).map(plain).join("<br>") + (lines.length > 3 ? " …" : "");
  }

  // The trials without any other task, which the others are to be compared with.
  function direct(study, figure, task, choice, metric, look, names) {
    return figure.lines.flatMap((line) => line.indexes).map((i) => study.points[i])
      .filter((p) => p.t === task.name && p.x === "direct").flatMap((point) => {
        const found = statistics(point, metric, choice);
        return found ? [{ type: "scatter", mode: "lines", x: [found.mean, found.mean], y: [-0.5, names.length - 0.5], hoverinfo: "skip",
          line: { color: look.soft, dash: "dot", width: 1.2 } }] : [];
      });
  }

  // The mean over all permutations.
  function overall(trace) {
    const mean = trace.y.reduce((sum, y) => sum + y, 0) / trace.y.length;
    return { type: "scatter", mode: "lines", x: [Math.min(...trace.x) - 0.4, Math.max(...trace.x) + 0.4], y: [mean, mean], hoverinfo: "text",
      hovertext: `mean of ${trace.y.length} permutations: ${number(mean)}`, line: { color: trace.marker.color, width: 1.5 } };
  }

  // Blocks are named by their layers: 1–3, 2–4, …
  function blocks(study, figure) {
    const points = figure.lines.flatMap((line) => line.indexes.map((i) => study.points[i]));
    const sizes = unique(points.map((p) => p.block));
    const firsts = unique(points.map((p) => p.x)).sort((a, b) => a - b);
    if (sizes.length !== 1 || firsts.length > 16) return { title: { text: "First layer of the block", font: { size: 13 }, standoff: 8 } };
    return { range: [firsts[0] - 0.5, firsts[firsts.length - 1] + 0.5], tickvals: firsts, ticktext: firsts.map((f) => (sizes[0] === 1 ? `${f}` : `${f}–${f + sizes[0] - 1}`)),
      tickangle: sizes[0] > 1 && firsts.length > 5 ? -45 : 0, ticklabeloverflow: "allow" };
  }

  // Intervals of two or three trials can be huge: the means decide the frame, and bars may run out of it.
  function bound(layout, data, along) {
    const bars = `error_${along}`;
    const means = data.flatMap((d) => d[along]);
    if (!means.length) return false;
    const [low, high] = [Math.min(...means), Math.max(...means)];
    const room = Math.max(high - low, 0.02) * 0.6;
    const barred = data.filter((d) => d[bars]);
    const ends = [Math.min(low, ...barred.flatMap((d) => d[along].map((v, i) => v - d[bars].arrayminus[i]))),
      Math.max(high, ...barred.flatMap((d) => d[along].map((v, i) => v + d[bars].array[i])))];
    const cut = ends[0] < low - room || ends[1] > high + room;
    const range = [Math.max(ends[0], low - room), Math.min(ends[1], high + room)];
    const edge = 0.06 * (range[1] - range[0] || 0.1);
    layout[`${along}axis`].range = [range[0] - edge, range[1] + edge];
    return cut;
  }

  // Every trial by itself, a little to the side so that equal scores can be told apart.
  function singles(study, names, raw, line, aside) {
    const places = raw.map(([i, j]) => (names.length ? names.indexOf(study.points[i].x) : study.points[i].x + aside) +
      0.3 * ((study.points[i].n[j] * 0.618) % 1 - 0.5));
    const values = raw.map((r) => r[2]);
    return {
      type: "scatter", mode: "markers", hoverinfo: "text", x: names.length ? values : places, y: names.length ? places : values,
      hovertext: raw.map(([i, j, v]) => `${plain(study.points[i].name)}, trial ${study.points[i].n[j]}: ${number(v)}`),
      customdata: raw.map((r) => r[0]),
      marker: { color: line.color, size: 4.5, opacity: 0.45, line: { width: 0 } },
    };
  }

  // The full model and the embeddings alone, from the incremental experiment at the largest size shown.
  function baselines(study, figure, task, choice, metric, look) {
    const sizes = study.sizes.map((s) => s.name).filter((s) => figure.lines.some((line) => line.s === s));
    const size = sizes[sizes.length - 1];
    const xs = figure.lines.flatMap((line) => line.indexes.map((i) => study.points[i].x));
    const ends = [Math.min(...xs) - 0.4, Math.max(...xs) + 0.4];
    return [[study.depth, "full model", "dash"], [0, "embeddings only", "dot"]].flatMap(([k, name, dash]) => {
      const point = study.points.find((p) => p.k === "incremental" && p.t === task.name && p.s === size && p.x === k);
      const found = point && statistics(point, metric, choice);
      if (!found) return [];
      return [{ type: "scatter", mode: "lines", x: ends, y: [found.mean, found.mean], hoverinfo: "text", name,
        hovertext: `${name}, ${plain(size)}: ${number(found.mean)}`, line: { color: look.soft, dash, width: 1.5 } }];
    });
  }

  // The intact encoder at the same size under the same protocol, if the study has it.
  function intact(study, point) {
    return study.points.find((p) => p.k === "incremental" && p.x === study.depth && p.t === point.t && p.s === point.s && p.p === point.p);
  }

  // The mean over pairs of trials with the same seeds.
  function difference(point, base, metric) {
    const [own, other] = [point.v[metric] || [], base.v[metric] || []];
    const pairs = point.n.map((n, j) => [own[j], other[base.n.indexOf(n)]]).filter(([a, b]) => Number.isFinite(a) && Number.isFinite(b));
    return pairs.length ? { n: pairs.length, mean: pairs.reduce((sum, [a, b]) => sum + a - b, 0) / pairs.length } : null;
  }

  const signed = (v) => (v < 0 ? "−" : "+") + Math.abs(v).toFixed(3);

  function heads(study, figure, task, choice, look, dark) {
    const metric = metricOf(study, task.name, choice);
    const line = figure.lines[figure.lines.length - 1]; // the largest size
    const points = (line ? line.indexes : []).filter((i) => study.points[i].t === task.name);
    const compared = points.some((i) => intact(study, study.points[i]));
    const layers = unique(points.map((i) => study.points[i].layer)).sort((a, b) => a - b);
    const columns = unique(points.map((i) => study.points[i].head)).sort((a, b) => a - b);
    const blank = () => layers.map(() => columns.map(() => null));
    const [z, text, hovertext, custom] = [blank(), blank(), blank(), blank()];
    points.forEach((i) => {
      const point = study.points[i];
      const found = statistics(point, metric, choice);
      const base = compared && intact(study, point);
      const against = base && found && difference(point, base, metric);
      const [r, c] = [layers.indexOf(point.layer), columns.indexOf(point.head)];
      z[r][c] = compared ? (against ? against.mean : null) : found && found.mean;
      text[r][c] = against ? signed(against.mean) : "";
      hovertext[r][c] = found ? hover(study, point, found, metric) + (against ? `<br>difference to intact ${signed(against.mean)}, ${against.n} pairs` : "")
        : plain(point.name) + ": nothing finished";
      custom[r][c] = i;
    });
    const layout = frame(look, "Head", "Layer");
    layout.xaxis.type = layout.yaxis.type = "category";
    layout.yaxis.autorange = "reversed";
    const reach = Math.max(...z.flat().filter(Number.isFinite).map(Math.abs), 1e-6);
    const middle = dark ? "#2b3037" : "#f4f2ec";
    const colours = compared ? { colorscale: [[0, dark ? "#ff8a3d" : "#b35806"], [0.5, middle], [1, dark ? "#6fb1f0" : "#1f5fa8"]], zmin: -reach, zmax: reach }
      : { colorscale: "Cividis" };
    const data = [{ type: "heatmap", z, x: columns.map(String), y: layers.map(String), text, hovertext, customdata: custom, hoverinfo: "text", ...colours,
      texttemplate: columns.length <= 6 ? "%{text}" : "", textfont: { size: 11 },
      xgap: 1, ygap: 1, colorbar: { thickness: 10, outlinewidth: 0, tickfont: { color: look.soft } } }];
    return { data, layout, thinned: 0, empty: !z.flat().some((v) => v !== null) };
  }

  // Validation loss or score after every epoch, a line per number of layers preserved.
  function epochs(study, task, size, choice, look, dark) {
    const loss = choice.metric === "validation_loss";
    const points = study.points.filter((p) => p.k === "incremental" && p.t === task.name && p.s === size && chosen(p, choice));
    const ks = unique(points.map((p) => p.x)).sort((a, b) => a - b);
    const data = points.filter((p) => p.ep.length > 1).map((p) => ({
      type: "scatter", mode: "lines+markers", hoverinfo: "text", x: p.ep.map((_, i) => i + 1), y: p.ep.map((e) => e[loss ? 1 : 2]),
      hovertext: p.ep.map((e, i) => `${plain(p.name)}, after epoch ${i + 1}<br>training loss ${number(e[0])}<br>` +
        `validation loss ${number(e[1])}<br>${plain(metricLabel(study, task.metric))} ${number(e[2])}`),
      line: { color: viridis(ks.length > 1 ? ks.indexOf(p.x) / (ks.length - 1) : 0.4, dark), width: 2 }, marker: { size: 6 },
    }));
    const layout = frame(look, "Epoch", loss ? "Validation loss" : metricLabel(study, task.metric));
    layout.xaxis.dtick = Math.max(...data.map((d) => d.x.length), 1) > 12 ? undefined : 1;
    return { data, layout, empty: !data.length };
  }

  function curves(running, look, dark) {
    const drawn = running.filter((r) => r.curve.length > 1).slice(0, 24);
    const data = drawn.map((r, i) => ({
      type: "scatter", mode: "lines", hoverinfo: "text", x: r.curve.map((c) => c[0]), y: r.curve.map((c) => c[1]),
      hovertext: r.curve.map((c) => `${plain(r.label)}<br>step ${c[0]}: ${number(c[1])}`),
      line: { color: viridis(drawn.length > 1 ? i / (drawn.length - 1) : 0.4, dark), width: 1.4 },
    }));
    return { data, layout: frame(look, "Step", "Training loss"), empty: !data.length };
  }

  function frame(look, x, y) {
    const axis = (title) => ({ title: { text: plain(title), font: { size: 13 }, standoff: 8 }, gridcolor: look.grid, zeroline: false,
      linecolor: look.line, tickfont: { size: 12 }, automargin: true });
    return {
      margin: { l: 48, r: 8, t: 10, b: 44 }, showlegend: false, hovermode: "closest",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: look.font, size: 12, color: look.ink },
      hoverlabel: { bgcolor: look.sheet, bordercolor: look.line, font: { color: look.ink, size: 13, family: look.font }, align: "left" },
      xaxis: { ...axis(x), showgrid: false }, yaxis: axis(y),
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    };
  }

  return { build, panel, epochs, curves, intact, statistics, metricOf, metricLabel, number, unique, chosen };
})();
