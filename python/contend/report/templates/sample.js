(() => {
  "use strict";
  // The table of programs: what each used in the visible range, largest first.
  const data = JSON.parse(document.getElementById("users").textContent);
  const body = document.getElementById("users-rows");
  const words = document.getElementById("users-range");
  if (!data || !body) return;
  const kinds = [["cpu", 1], ["delay", 1], ["disk", 1e-6]];
  const fill = (start, end) => {
    const inside = [];
    let seconds = 0;
    for (let i = 0; i + 1 < data.edges.length; i++) {
      const middle = (data.edges[i] + data.edges[i + 1]) / 2;
      if (middle >= start && middle <= end) { inside.push(i); seconds += data.edges[i + 1] - data.edges[i]; }
    }
    if (!inside.length) return;
    const rows = data.names.map((name, n) => [name, ...kinds.map(([kind, scale]) =>
      inside.reduce((sum, i) => sum + data.used[kind][n][i], 0) * scale / seconds)]);
    rows.sort((a, b) => b[1] - a[1]);
    body.replaceChildren(...rows.map((row) => {
      const line = document.createElement("tr");
      row.forEach((item, i) => {
        const cell = document.createElement(i ? "td" : "th");
        if (!i) cell.scope = "row";
        cell.textContent = i ? item.toFixed(3) : item;
        line.append(cell);
      });
      return line;
    }));
    words.textContent = `${Math.max(0, start).toFixed(1)} s to ${end.toFixed(1)} s`;
  };
  document.addEventListener("contend-range", (event) => fill(...event.detail));
})();
