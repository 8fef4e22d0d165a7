// Draws the plots in the colours of the reader's theme, and again when the theme changes.
// When all are drawn, <body data-drawn="N"> says how many; a plot that can't be drawn says so in its place.
"use strict";
(() => {
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const value = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function coloured(node) {
    if (node === "@scale") return [[0, value("--scale-low")], [1, value("--scale-high")]];
    if (node === "@muted" || node === "@ink" || node === "@soft" || node === "@card") return value("--" + node.slice(1));
    if (typeof node === "string" && /^@[1-4]$/.test(node)) return value("--series-" + node[1]);
    if (Array.isArray(node)) return node.map(coloured);
    if (node !== null && typeof node === "object")
      return Object.fromEntries(Object.entries(node).map(([key, inner]) => [key, coloured(inner)]));
    return node;
  }

  function axis(own) {
    const plain = {
      gridcolor: value("--line"), linecolor: value("--line"), zerolinecolor: value("--line"),
      automargin: true, fixedrange: false, title: { standoff: 12 },
    };
    return { ...plain, ...own, title: { ...plain.title, ...(own && own.title) } };
  }

  function layoutOf(plot) {
    const layout = coloured(plot.layout);
    const narrow = window.innerWidth < 640;
    const font = { family: getComputedStyle(document.body).fontFamily, size: narrow ? 11 : 13, color: value("--ink") };
    const hover = { bgcolor: value("--card"), bordercolor: value("--line"), font };
    const result = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font, hoverlabel: hover, hovermode: "closest",
      margin: { l: 8, r: 8, t: 8, b: 8 }, bargap: 0.25,
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font },
      ...layout,
    };
    for (const name of Object.keys(layout)) if (/^[xy]axis\d*$/.test(name)) result[name] = axis(layout[name]);
    for (const name of ["xaxis", "yaxis"]) if (!(name in layout)) result[name] = axis({});
    return result;
  }

  const settings = { responsive: true, displaylogo: false, displayModeBar: false };

  // Plotly comes packed by gzip, in base64; browsers since 2023 unpack it themselves.
  async function unpack() {
    const packed = document.getElementById("plotly");
    if (packed === null || window.Plotly) return;
    const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }

  async function draw() {
    let drawn = 0;
    try {
      await unpack();
    } catch (error) {
      console.error(error); // Each plot says below that it could not be drawn.
    }
    for (const plot of plots) {
      const place = document.getElementById(plot.name);
      try {
        await Plotly.react(place, coloured(plot.traces), layoutOf(plot), settings);
        drawn += 1;
      } catch (error) {
        place.textContent = "This plot could not be drawn: " + error;
      }
    }
    document.body.dataset.drawn = String(drawn);
  }

  dark.addEventListener("change", draw);
  draw();
})();
