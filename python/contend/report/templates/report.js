(() => {
  "use strict";
  const root = document.documentElement;
  const status = document.getElementById("status");

  // Colours: system, light, dark. Charts use the same CSS variables, so nothing is drawn again.
  const themes = ["system", "light", "dark"];
  const button = document.getElementById("theme");
  let theme = "system";
  try { theme = localStorage.getItem("contend-theme") || theme; } catch { /* no storage for local files */ }
  const applyTheme = () => {
    if (theme === "system") delete root.dataset.theme; else root.dataset.theme = theme;
    button.textContent = `Colours: ${theme}`;
    button.setAttribute("aria-label", `Colours: ${theme}. Change`);
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    try { localStorage.setItem("contend-theme", theme); } catch { /* the choice lasts for this page */ }
    applyTheme();
  });
  applyTheme();

  // Copy buttons. The clipboard API needs a secure context; a selection works in a local file too.
  const copy = async (node) => {
    try {
      await navigator.clipboard.writeText(node.textContent);
      return true;
    } catch {
      const range = document.createRange();
      range.selectNodeContents(node);
      const selection = getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      return document.execCommand("copy");
    }
  };
  for (const each of document.querySelectorAll("[data-copy]")) {
    each.addEventListener("click", async () => {
      const done = await copy(document.getElementById(each.dataset.copy));
      each.textContent = done ? "Copied" : "Selected";
      status.textContent = done ? "Command copied" : "Command selected";
      setTimeout(() => { each.textContent = "Copy"; }, 2000);
    });
  }

  // The card: its SVG, drawn on a canvas and saved as PNG.
  const card = document.getElementById("card");
  const save = document.getElementById("card-button");
  if (card && save) {
    save.hidden = false;
    save.addEventListener("click", () => {
      const image = new Image();
      image.onload = () => {
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [image.width, image.height];
        canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
        const link = document.createElement("a");
        link.download = "contend-card.png";
        link.href = canvas.toDataURL("image/png");
        link.click();
        status.textContent = "Picture saved";
      };
      image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(JSON.parse(card.textContent))}`;
    });
  }

  // Charts.
  const { charts, rows } = JSON.parse(document.getElementById("charts").textContent);
  const unpacked = (of) => Array.isArray(of) ? structuredClone(of)
    : of.rows.map((row) => Object.fromEntries(of.keys.map((key, at) => [key, row[at]])));
  const spec = (id) => {  // with rows of its own: Vega writes into them
    const datasets = Object.fromEntries(charts[id].datasets.map((name) => [name, unpacked(rows[name])]));
    return { ...charts[id], datasets };
  };
  const views = new Map();
  const draw = async (node) => {
    const { view } = await vegaEmbed(node, spec(node.dataset.chart), {
      mode: "vega-lite", renderer: "svg", actions: false, defaultStyle: false, hover: true,
      tooltip: { disableDefaultStyle: true },
      ast: root.dataset.policy === "strict",  // drawn by an interpreter where the page's policy lets no text be run
    });
    views.set(node.dataset.chart, view);
    if (node.dataset.chart.startsWith("stacks-")) zoomable(view, document.getElementById("stacks-program"));
  };

  // Stacks of calls: a click shows one as wide as the page; on what is as wide already, everything again.
  const zoomable = (view, list) => {
    const whole = [view.signal("x0"), view.signal("x1")];
    const zoom = (start, end) => view.signal("x0", start).signal("x1", end).runAsync();
    view.addEventListener("click", (_, item) => {
      const call = item && item.datum;
      if (!call || call.a === undefined) return;
      const wide = call.a <= view.signal("x0") && call.b >= view.signal("x1");
      list.value = "";
      zoom(...(wide ? whole : [call.a, call.b]));
    });
    list.addEventListener("change", () => {
      zoom(...(list.value ? list.value.split(",").map(Number) : whole));
      status.textContent = `The stacks show ${list.selectedOptions[0].textContent}`;
    });
  };

  // The visible seconds of every timeline: from the brush, or from the list of blocks.
  const choose = document.getElementById("window-block");
  let whole = null;
  let pending = 0;
  const show = (start, end) => {
    document.dispatchEvent(new CustomEvent("contend-range", { detail: [start, end] }));
    cancelAnimationFrame(pending);
    pending = requestAnimationFrame(() => {
      for (const [id, view] of views) {
        if (id.startsWith("timeline-")) view.signal("x0", start).signal("x1", end).runAsync();
      }
    });
  };
  const connect = () => {
    const strip = views.get("strip");
    const first = [...views].find(([id]) => id.startsWith("timeline-"));
    if (!strip || !first || !choose) return;
    whole = [first[1].signal("x0"), first[1].signal("x1")];
    strip.addSignalListener("brush", (_, brush) => {
      const field = Object.values(brush)[0];
      if (field && field[1] > field[0]) { choose.value = ""; show(field[0], field[1]); } else show(...whole);
    });
    choose.addEventListener("change", () => {
      const range = choose.value ? choose.value.split(",").map(Number) : whole;
      show(...range);
      status.textContent = `Timelines show ${choose.selectedOptions[0].textContent}`;
    });
  };

  Promise.all([...document.querySelectorAll("[data-chart]")].map(draw)).then(() => {
    connect();
    performance.mark("charts-drawn");
    root.dataset.drawn = "yes";
  });
})();
