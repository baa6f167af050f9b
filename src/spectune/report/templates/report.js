(() => {
  "use strict";
  const { palette, figures } = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const config = { displayModeBar: false, displaylogo: false, responsive: true, plotlyServerURL: "" };
  const drawn = new Set();
  let printing = false;

  const colour = (name) => {
    const paper = dark.matches && !printing ? "dark" : "light";
    if (name.startsWith("@c:")) return palette[name.slice(3)][paper];
    return { ink: ["#1b1f24", "#e7eaee"], muted: ["#5a636e", "#a3adb8"], faint: ["#a9b1ba", "#626c78"],
      line: ["#e3e6e9", "#2e353d"], band: ["#e9ecef", "#2a3038"], paper: ["#ffffff", "#15181c"],
    }[name.slice(1)][paper === "dark" ? 1 : 0];
  };
  const isColour = /^@(c:[0-9a-f]+|ink|muted|faint|line|band|paper)$/;
  const painted = (value) => {
    if (typeof value === "string") return isColour.test(value) ? colour(value) : value;
    if (Array.isArray(value)) return value.map(painted);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, painted(part)]));
  };
  const draw = (place) => {
    const { data, layout } = painted(figures[place.id]);
    if (printing) layout.width = place.clientWidth;
    drawn.add(place);
    place.classList.add("drawn");
    return Plotly.react(place, data, layout, config);
  };

  const places = [...document.querySelectorAll(".plot")];
  const hidden = (place) => place.closest("details:not([open])") !== null;
  const waiting = places.filter((place) => !hidden(place));
  const drawNext = () => {
    const place = waiting.shift();
    if (place && !drawn.has(place)) draw(place);
    if (waiting.length) setTimeout(drawNext);
  };
  drawNext();
  for (const box of document.querySelectorAll("details")) {
    box.addEventListener("toggle", () => {
      if (!box.open || printing) return;
      for (const place of box.querySelectorAll(".plot")) if (!drawn.has(place) && !hidden(place)) draw(place);
    });
  }
  dark.addEventListener("change", () => drawn.forEach(draw));

  const closed = [];
  addEventListener("beforeprint", () => {
    printing = true;
    for (const box of document.querySelectorAll("details:not([open])")) { closed.push(box); box.open = true; }
    document.documentElement.classList.add("printing");
    places.forEach(draw);
  });
  addEventListener("afterprint", () => {
    printing = false;
    document.documentElement.classList.remove("printing");
    closed.splice(0).forEach((box) => { box.open = false; });
    for (const place of drawn) { draw(place); if (place.offsetWidth) Plotly.Plots.resize(place); }
  });

  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const code = document.getElementById(button.dataset.of);
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      try { await navigator.clipboard.writeText(code.textContent); } catch { document.execCommand("copy"); }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  const openTarget = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", openTarget);
  openTarget();
})();
