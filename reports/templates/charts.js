// Puts an interactive chart in the place of each static drawing. The options come
// from the JSON beside the drawing; colours in it are names of CSS variables, so
// that both drawings follow the page's light and dark schemes.
(() => {
  "use strict";
  if (!window.echarts) return;

  const root = document.documentElement;
  const scales = [[1e9, "B"], [1e6, "M"], [1e3, "k"], [1, ""]];
  const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 5 });
  const small = (v) => v !== 0 && Math.abs(v) < 1e-3;
  function tick(v) {
    if (v === 0) return "0";
    if (small(v)) return Number(v.toPrecision(3)).toExponential();
    const [unit, suffix] = scales.find(([u]) => Math.abs(v) >= u) || [1, ""];
    return Number((v / unit).toPrecision(6)) + suffix;
  }
  const exact = (v) => (v == null ? "not finite" : small(v) ? v.toExponential(3) : plain.format(v));

  // go-echarts writes null for what is unset, which echarts would take as a value;
  // inside data, null is a gap and must stay.
  function resolve(value, inData) {
    if (typeof value === "string") {
      const name = value.match(/^var\((--[a-z0-9]+)\)$/);
      return name ? getComputedStyle(root).getPropertyValue(name[1]).trim() : value;
    }
    if (Array.isArray(value)) return value.map((v) => resolve(v, inData));
    if (value === null || typeof value !== "object") return value;
    const out = {};
    for (const [key, v] of Object.entries(value)) {
      if (v !== null || inData) out[key] = resolve(v, inData || key === "data");
    }
    return out;
  }

  function option(figure) {
    const o = resolve(JSON.parse(figure.querySelector("script").textContent), false);
    const muted = resolve("var(--muted)");
    o.textStyle = { fontFamily: getComputedStyle(document.body).fontFamily };
    for (const axis of [...o.xAxis, ...o.yAxis]) axis.axisLabel.formatter = tick;
    const isShare = figure.dataset.scale === "share";
    const percent = (v) => (v == null ? "not finite" : Number((100 * v).toFixed(1)) + "%");
    if (isShare) for (const axis of o.yAxis) axis.axisLabel.formatter = percent;
    // Bounds that are no multiples of a tick's step would crowd the ticks.
    for (const axis of o.yAxis) if (axis.min !== undefined && !isShare) {
      axis.axisLabel.showMinLabel = axis.min === 0;
      axis.axisLabel.showMaxLabel = false;
    }
    for (const s of o.series) if (s.id && s.id.startsWith("untold ")) s.tooltip = { show: false };
    if (figure.classList.contains("small")) {
      for (const axis of o.xAxis) axis.splitNumber = 3;
      delete o.toolbox;
      o.grid.top = "22";
    }
    // The ends of the run are rarely round numbers, and would crowd the ticks.
    for (const axis of o.xAxis) {
      axis.axisLabel.showMinLabel = axis.min === 0;
      axis.axisLabel.showMaxLabel = false;
    }
    o.tooltip.confine = true;
    o.tooltip.valueFormatter = isShare ? percent : exact;
    o.tooltip.textStyle = { color: resolve("var(--ink)"), fontSize: 12 };
    o.tooltip.axisPointer = { label: { formatter: (p) => plain.format(Math.round(p.value)) }, lineStyle: { color: muted } };
    if (o.toolbox) {
      o.toolbox.iconStyle = { borderColor: muted };
      o.toolbox.itemSize = 12;
    }
    return o;
  }

  // Where a chart has several curves, its caption shows and hides them.
  function toggles(figure, chart) {
    const items = figure.querySelectorAll("li.curve");
    if (items.length < 2) return;
    for (const item of items) {
      const flip = () => {
        const shown = item.getAttribute("aria-pressed") === "false";
        item.setAttribute("aria-pressed", shown);
        chart.dispatchAction({ type: shown ? "legendSelect" : "legendUnSelect", name: item.querySelector(".name").textContent });
      };
      item.setAttribute("role", "button");
      item.setAttribute("aria-pressed", "true");
      item.tabIndex = 0;
      item.addEventListener("click", flip);
      item.addEventListener("keydown", (e) => {
        if (e.key === "Enter" || e.key === " ") { e.preventDefault(); flip(); }
      });
    }
  }

  const drawn = new Map();
  function draw(figure) {
    if (drawn.has(figure)) return;
    const place = figure.querySelector(".interactive");
    place.hidden = false;
    try {
      const chart = echarts.init(place, null, { renderer: "svg" });
      chart.setOption(option(figure));
      drawn.set(figure, chart);
      toggles(figure, chart);
      figure.querySelector(".drawing").hidden = true;
      new ResizeObserver(() => chart.resize()).observe(place);
    } catch (problem) {
      place.hidden = true; // the static drawing stays
      console.error(problem);
    }
  }

  const nearby = new IntersectionObserver((entries) => {
    for (const e of entries) if (e.isIntersecting) { draw(e.target); nearby.unobserve(e.target); }
  }, { rootMargin: "600px" });
  for (const figure of document.querySelectorAll("figure.chart")) nearby.observe(figure);

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const [figure, chart] of drawn) {
      chart.setOption(option(figure), true);
      for (const item of figure.querySelectorAll("li.curve[aria-pressed=false]")) {
        chart.dispatchAction({ type: "legendUnSelect", name: item.querySelector(".name").textContent });
      }
    }
  });
})();
