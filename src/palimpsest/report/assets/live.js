// The live part: what the server tells as it happens. In a report there is nothing to listen to.
"use strict";

palimpsest.live = (() => {
  const { page, figures } = palimpsest;
  const { payload, $, h, fill, count } = page;
  if (!payload.live) return null;
  let now = payload.live.now;

  function label(id) {
    const study = page.study();
    const point = study.points.find((p) => p.id.includes(id));
    if (!point) return id.slice(0, 12);
    const task = study.tasks.find((t) => t.name === point.t);
    return `${task.label}, ${point.s}, ${point.name}, trial ${point.n[point.id.indexOf(id)]}`;
  }

  function render() {
    const study = page.study();
    const busy = now.drivers.length > 0;
    const sum = (name) => now.drivers.reduce((n, d) => n + (d[name] || 0), 0);
    const left = now.drivers.map((d) => d.seconds_left).filter((s) => s !== null && s !== undefined);
    page.facts($("pace"), busy ? [
      ["Running now", `${count(now.running.length)} trials`],
      ["Trials per minute", sum("trials_per_minute").toFixed(1)],
      ["Steps per second", sum("steps_per_second").toFixed(1)],
      ["Time left", left.length ? `about ${page.duration(Math.max(...left))}` : "–"],
      ["Of this run", `${count(sum("finished") + sum("failed"))} of ${count(sum("total"))}`],
    ] : [["Running now", "nothing"]]);
    const task = new Map(study.tasks.map((t) => [t.name, t.label]));
    fill($("newest"), study.newest.length ? page.tableOf(["score", "task", "point", "trial"], study.newest.map((n) => [
      n.status === "failed" ? "failed" : figures.number(n.score), `${task.get(n.t) || n.t}, ${n.s}`, n.name, String(n.trial)]),
      { right: ["score", "trial"], label: "Newest scores" }) : h("p", { class: "note" }, "No trial has ended yet."));
    page.setRunning(new Set(now.running.map((r) => r.id)));
    redraw();
  }

  function redraw() {
    if (!page.ready()) return;
    const made = figures.curves(now.running.map((r) => ({ ...r, label: label(r.id) })), page.look(), page.isDark());
    $("losses").hidden = made.empty;
    $("losses-note").textContent = made.empty
      ? now.drivers.length ? "The first losses come after a few steps." : "No driver is at work. The command below goes on with what is missing." : "";
    if (!made.empty) Plotly.react($("losses"), made.data, made.layout, page.CONFIG);
  }

  function connection(text, lost) {
    const place = $("connection");
    place.hidden = false;
    place.textContent = text;
    place.classList.toggle("lost", lost);
  }

  function listen() {
    const source = new EventSource(`/events?since=${payload.live.version}`);
    source.addEventListener("hello", (e) => {
      if (JSON.parse(e.data).server !== payload.live.server) location.reload(); // another server: it may show another study
      connection("live", false);
    });
    source.addEventListener("now", (e) => { now = JSON.parse(e.data); render(); });
    source.addEventListener("changes", (e) => {
      JSON.parse(e.data).forEach(page.update);
      render();
    });
    source.addEventListener("error", () => connection("no connection: trying again", true));
  }

  render();
  listen();
  return { render, redraw };
})();
