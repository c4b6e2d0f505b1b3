"use strict";
// Turns a gate's drawings into ones with a cursor, a zoom and links to commits. The pages are readable without it.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = (v) => v == null ? "–" : Number(v.toPrecision(4)).toString();
  const day = (at) => new Date(at * 1000).toISOString().slice(0, 10);
  const drawn = [];

  const draw = (figure) => {
    const series = data[figure.dataset.check].series[figure.dataset.series];
    const { points, steps, levels, unit } = series;
    if (points.length < 2) return;
    const xs = points.map((point) => point.at);
    const of = (name) => {
      const ys = points.map(() => null);
      for (const level of levels) for (let i = level.from; i < level.to; i++) ys[i] = level[name];
      return ys;
    };
    const ink = colour("--faint"), line = colour("--line"), head = colour("--head");
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, font: "12px system-ui, sans-serif" };
    const marks = (u) => {
      u.ctx.save();
      u.ctx.textAlign = "left";
      u.ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
      for (const step of steps) {
        const x = Math.round(u.valToPos(points[step.point].at, "x", true));
        if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
        u.ctx.strokeStyle = u.ctx.fillStyle = colour(step.is_worse ? "--fail" : "--pass");
        u.ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
        u.ctx.beginPath();
        u.ctx.moveTo(x, u.bbox.top);
        u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
        u.ctx.stroke();
        u.ctx.fillText(step.is_worse ? "worse" : "better", x + 3, u.bbox.top + 12 * devicePixelRatio);
      }
      u.ctx.restore();
    };
    const still = figure.querySelector("svg");
    const holder = document.createElement("div");
    still.replaceWith(holder);
    const u = new uPlot({
      width: Math.max(260, Math.floor(figure.clientWidth)), height: 240,
      axes: [axis, { ...axis, size: 72, values: (_, ys) => ys.map((y) => `${number(y)} ${unit}`) }],
      series: [
        { label: "date", value: (_, at) => at == null ? "–" : day(at) },
        { label: "session", stroke: head, width: 1.5, points: { show: points.length < 400, size: 6, fill: head },
          value: (_, v, __, i) => i == null ? "–" : `${number(v)} ${unit} at ${points[i].commit}` },
        { label: "level", stroke: ink, width: 2, points: { show: false }, value: (_, v) => `${number(v)} ${unit}` },
        { label: "low", stroke: "transparent", points: { show: false }, value: (_, v) => `${number(v)} ${unit}` },
        { label: "high", stroke: "transparent", points: { show: false }, value: (_, v) => `${number(v)} ${unit}` },
      ],
      bands: [{ series: [4, 3], fill: colour("--kept") }],
      cursor: { drag: { x: true, y: false } },
      hooks: { draw: [marks] },
    }, [xs, points.map((point) => point.value), of("value"), of("low"), of("high")], holder);
    // A click that zooms nothing opens the commit.
    let down = 0;
    u.over.addEventListener("mousedown", (event) => { down = event.clientX; });
    u.over.addEventListener("click", (event) => {
      const url = u.cursor.idx != null && points[u.cursor.idx].url;
      if (url && Math.abs(event.clientX - down) < 4) open(url, "_blank", "noopener");
    });
    drawn.push({ u, figure });
  };

  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      draw(target);
    }
  }, { rootMargin: "200px" });
  document.querySelectorAll("figure[data-series]").forEach((figure) => seen.observe(figure));
  addEventListener("resize", () => {
    for (const { u, figure } of drawn) u.setSize({ width: Math.max(260, Math.floor(figure.clientWidth)), height: u.height });
  });
})();
