// Turns the page's drawings into ones with a cursor, a zoom and arms that can be hidden. Everything is readable without it.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { colour, number } = drawings;

  for (const button of document.querySelectorAll("[data-copy]")) {
    const text = document.getElementById(button.dataset.copy).textContent;
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  // Lines on one x: [xs, each line's ys].
  const merged = (...lines) => {
    const maps = lines.map((points) => new Map(points));
    const xs = [...new Set(maps.flatMap((map) => [...map.keys()]))].sort((a, b) => a - b);
    return [xs, ...maps.map((map) => xs.map((x) => map.get(x) ?? null))];
  };

  // What a figure draws: columns, the x axis, lines across.
  const plots = {
    launches(check) {
      const xs = check.launches.map(([position]) => position);
      const of = (arm) => check.launches.map(([, isHead, v]) => isHead === arm && v != null ? v * check.scale : null);
      return { columns: [xs, of(false), of(true)], x: { label: "launch", whole: true, range: (u, low, high) => [low - .5, high + .5] }, points: true, limits: check.limits };
    },
    percentiles(check) {
      const [base, head] = check.percentiles;
      const xs = data.percentiles.map((p) => -Math.log10(1 - p));
      const of = (values) => xs.map((_, i) => i < values.length ? values[i] * check.scale : null);
      const name = (x) => "p" + number(100 * (1 - Math.pow(10, -x)));
      const splits = [.5, .9, .99, .999].map((p) => -Math.log10(1 - p));
      return { columns: [xs, of(base), of(head)], x: { label: "percentile", name, splits } };
    },
    tokens(check) {
      return { columns: merged(check.tokens[0], check.tokens[1]), x: { label: "event", whole: true }, unit: "ms" };
    },
    contexts(check) {
      const [xs, ...points] = merged(...check.contexts.map((of) => of?.points ?? []));
      const fits = check.contexts.map((of) => xs.map((x) => of ? of.base + of.slope * x : null));
      return { columns: [xs, ...points, ...fits], x: { label: "context", whole: true }, points: true, unit: "ms/token" };
    },
    readings(over) {
      return { columns: merged(over.base, over.head), x: { label: "s" }, unit: over.unit };
    },
  };

  // Steps between the ticks of what is counted.
  const wholes = [1, 10, 100, 1e3, 1e4, 1e5].flatMap((n) => [n, 2 * n, 5 * n]);

  const draw = (figure) => {
    const kind = figure.dataset.plot;
    const of = kind === "readings" ? data.readings[figure.dataset.index]
      : data.checks.find((check) => check.id === figure.dataset.check);
    const still = figure.querySelector("svg");
    if (!of || !still) return;
    const plot = plots[kind](of);
    const unit = plot.unit ?? of.unit;
    const name = plot.x.name ?? number;
    const axis = drawings.axis();
    const series = (label, stroke, points = Boolean(plot.points)) => ({
      label, stroke, width: 2, spanGaps: true, value: (_, v) => v == null ? "–" : `${number(v)} ${unit}`,
      paths: points ? () => null : undefined,
      points: { show: points, size: 9, fill: label === "head" ? stroke : colour("--ground"), stroke },
    });
    const fits = plot.columns.length > 3
      ? [series("base's line", colour("--base"), false), series("head's line", colour("--head"), false)] : [];
    const limits = (u) => {
      u.ctx.save();
      u.ctx.textAlign = "left";
      u.ctx.textBaseline = "bottom";
      u.ctx.strokeStyle = colour("--fail");
      u.ctx.fillStyle = colour("--fail");
      u.ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
      u.ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
      for (const [label, value] of plot.limits ?? []) {
        const y = Math.round(u.valToPos(value * of.scale, "y", true));
        if (y < u.bbox.top || y > u.bbox.top + u.bbox.height) continue;
        u.ctx.beginPath();
        u.ctx.moveTo(u.bbox.left, y);
        u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
        u.ctx.stroke();
        u.ctx.fillText(label, u.bbox.left + 4 * devicePixelRatio, y - 2 * devicePixelRatio);
      }
      u.ctx.restore();
    };
    const range = (u, low, high) => {
      const pad = Math.max((high - low) * .08, Math.abs(high) * 1e-3, 1e-9);
      let [from, to] = [low - pad, high + pad];
      // A margin and a ceiling show how great a change is; a limit far away would press the values together.
      const reach = (plot.limits ?? []).length > 1 ? Infinity : 3 * (to - from);
      for (const [, value] of plot.limits ?? []) {
        const v = value * of.scale;
        if (v > to && v < to + reach) to = v + pad;
        if (v < from && v > from - reach) from = v - pad;
      }
      return [low >= 0 ? Math.max(0, from) : from, to];
    };
    drawings.replace(figure, {
      height: kind === "readings" ? 150 : 220,
      scales: { x: { time: false, ...(plot.x.range && { range: plot.x.range }) }, y: { range } },
      axes: [
        { ...axis, values: (_, xs) => xs.map((x) => name(x)), splits: plot.x.splits ? () => plot.x.splits : undefined, ...(plot.x.whole && { incrs: wholes }) },
        { ...axis, size: Math.max(64, 20 + 7 * (5 + unit.length)), values: (_, ys) => ys.map((y) => `${number(y)} ${unit}`) },
      ],
      series: [
        { label: plot.x.label, value: (_, x) => x == null ? "–" : name(x) },
        series("base", colour("--base")), series("head", colour("--head")), ...fits,
      ],
      cursor: { drag: { x: true, y: false }, sync: kind === "readings" ? { key: "readings" } : undefined },
      hooks: { draw: [limits] },
    }, plot.columns);
    const caption = figure.querySelector("figcaption");
    const add = (text, make, file) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.addEventListener("click", () => {
        const link = document.createElement("a");
        link.href = URL.createObjectURL(make());
        link.download = file;
        link.click();
        URL.revokeObjectURL(link.href);
      });
      caption.append(button);
    };
    const file = `${of.id ?? of.name.replaceAll(" ", "-")}-${kind}`;
    if (kind !== "readings") {
      add("CSV", () => {
        const [xs, base, head] = plot.columns;
        const rows = xs.map((x, i) => [name(x), base[i] ?? "", head[i] ?? ""].join(","));
        return new Blob([[`${plot.x.label},base,head`, ...rows].join("\n") + "\n"], { type: "text/csv" });
      }, `${file}.csv`);
      add("SVG", () => {
        const copy = still.cloneNode(true);
        copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
        const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
        style.textContent = `text{font:12px sans-serif;fill:#57606a}.tick{stroke:#d8dee4}.limit{stroke:#cf222e;stroke-dasharray:5 4}
.line-base,.mean-base{fill:none;stroke:#6e7781;stroke-width:2}.line-head,.mean-head{fill:none;stroke:#0969da;stroke-width:2}
.dot-base{fill:#fff;stroke:#6e7781}.dot-head{fill:#0969da}`;
        copy.prepend(style);
        return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
      }, `${file}.svg`);
    }
  };

  drawings.whenSeen("figure[data-plot]", draw);

  // A link from the table opens the gate that it leads into.
  const open = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (!target) return;
    const gate = target.closest("details");
    if (gate) gate.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();
})();
