// Turns a gate's drawings into ones with a cursor, a zoom and links to commits. The pages are readable without it.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { colour, number } = drawings;
  const day = (at) => new Date(at * 1000).toISOString().slice(0, 10);

  const draw = (figure) => {
    const series = data[figure.dataset.check].series[figure.dataset.series];
    const { points, steps, marks, levels, unit } = series;
    if (points.length < 2) return;
    const xs = points.map((point) => point.at);
    const of = (name) => {
      const ys = points.map(() => null);
      for (const level of levels) for (let i = level.from; i < level.to; i++) ys[i] = level[name];
      return ys;
    };
    const ink = colour("--faint"), head = colour("--head"), axis = drawings.axis();
    // Steps with their words at the top, releases and notes at the bottom.
    const lines = [
      ...steps.map((step) => ({ at: points[step.point].at, ink: step.is_worse ? "--fail" : "--pass",
        text: step.is_worse ? "worse" : "better", isAbove: true })),
      ...marks.map(({ at, kind, text }) => ({ at, ink: "--faint", text: kind === "release" ? text : kind })),
    ];
    const drawLines = (u) => {
      u.ctx.save();
      u.ctx.textAlign = "left";
      u.ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
      for (const { at, ink, text, isAbove } of lines) {
        const x = Math.round(u.valToPos(at, "x", true));
        if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
        u.ctx.strokeStyle = u.ctx.fillStyle = colour(ink);
        u.ctx.setLineDash([(isAbove ? 4 : 1) * devicePixelRatio, 3 * devicePixelRatio]);
        u.ctx.beginPath();
        u.ctx.moveTo(x, u.bbox.top);
        u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
        u.ctx.stroke();
        const y = isAbove ? u.bbox.top + 12 * devicePixelRatio : u.bbox.top + u.bbox.height - 4 * devicePixelRatio;
        u.ctx.fillText(text.slice(0, 24), x + 3, y);
      }
      u.ctx.restore();
    };
    const u = drawings.replace(figure, {
      height: 240,
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
      hooks: { draw: [drawLines] },
    }, [xs, points.map((point) => point.value), of("value"), of("low"), of("high")]);
    // A click that zooms nothing opens the commit.
    let down = 0;
    u.over.addEventListener("mousedown", (event) => { down = event.clientX; });
    u.over.addEventListener("click", (event) => {
      const url = u.cursor.idx != null && points[u.cursor.idx].url;
      if (url && Math.abs(event.clientX - down) < 4) open(url, "_blank", "noopener");
    });
  };

  drawings.whenSeen("figure[data-series]", draw);

  const find = (id) => document.getElementById(id);
  if (!find("filters")) return;
  find("filters").hidden = false;
  const filter = () => {
    for (const row of document.querySelectorAll("tr[data-outcome]")) {
      const isNamed = row.dataset.name.includes(find("check").value.trim());
      row.hidden = !isNamed || (find("red").checked && row.dataset.outcome === "quiet");
    }
    for (const series of document.querySelectorAll("section[data-machine]")) {
      series.hidden = find("machine").value !== "" && find("machine").value !== series.dataset.machine;
    }
  };
  for (const id of ["check", "red", "machine"]) find(id)?.addEventListener("input", filter);
})();
