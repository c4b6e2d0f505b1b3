"use strict";
// What the scripts of all pages share: colours, numbers, axes, and when a figure is drawn.
const drawings = (() => {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = (v) => v == null ? "–" : Number(v.toPrecision(4)).toString();
  const axis = () => ({
    stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") },
    font: "12px system-ui, sans-serif",
  });
  const width = (figure) => Math.max(260, Math.floor(figure.clientWidth));
  // Puts a plot in the place of a figure's still drawing.
  const replace = (figure, options, columns) => {
    const holder = document.createElement("div");
    figure.querySelector("svg").replaceWith(holder);
    const u = new uPlot({ width: width(figure), ...options }, columns, holder);
    addEventListener("resize", () => {
      if (figure.clientWidth > 0) u.setSize({ width: width(figure), height: u.height });
    });
    return u;
  };
  // Draws each figure when it is first seen: a record may have many checks, and a folded one has no width.
  const whenSeen = (figures, draw) => {
    const seen = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        seen.unobserve(target);
        draw(target);
      }
    }, { rootMargin: "200px" });
    document.querySelectorAll(figures).forEach((figure) => seen.observe(figure));
  };
  return { colour, number, axis, replace, whenSeen };
})();
