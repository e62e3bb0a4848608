"use strict";
// The pages are complete without this: it sorts tables, and reads values out of pictures.
(function () {
  function value(row, column) {
    const cell = row.cells[column];
    if (!cell) return "";
    const given = cell.dataset.value;
    if (given !== undefined) return given === "" ? "" : isNaN(given) ? given : Number(given);
    const text = cell.textContent.trim();
    return text === "" || text === "–" ? "" : isNaN(text) ? text : Number(text);
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }

  // Rows without a value stay last, whichever way the others go.
  function sort(table, column, down) {
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, (row, place) => ({ row, place, key: value(row, column) }));
    rows.sort((a, b) => {
      if (a.key === "" || b.key === "") return (a.key === "") - (b.key === "") || a.place - b.place;
      return (down ? compare(b.key, a.key) : compare(a.key, b.key)) || a.place - b.place;
    });
    body.append(...rows.map((each) => each.row));
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = Array.from(table.tHead.rows[table.tHead.rows.length - 1].cells);
    heads.forEach((head, column) => {
      if (head.hasAttribute("data-unsorted")) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(table, column, down);
      });
    });
  }

  // A picture with lines says their values at a step: under the pointer, and by a slider for keys and fingers.
  function points(path) {
    return Array.from(path.getAttribute("d").matchAll(/([\d.]+) ([\d.]+)/g), (pair) => [Number(pair[1]), Number(pair[2])]);
  }

  function nearest(all, x) {
    let low = 0, high = all.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (all[middle][0] > x) high = middle; else low = middle;
    }
    return x - all[low][0] <= all[high][0] - x ? all[low] : all[high];
  }

  for (const svg of document.querySelectorAll("svg[data-readout]")) {
    const facts = {};
    for (const name of ["left", "right", "steps", "low", "high", "bottom", "top"]) facts[name] = Number(svg.dataset[name]);
    const { left, right, steps, low, high, bottom, top } = facts;
    const log = svg.dataset.log !== undefined;
    let lines = null;

    function loss(y) {
      const share = (bottom - y) / (bottom - top);
      const found = log ? Math.exp(Math.log(low) + share * (Math.log(high) - Math.log(low))) : low + share * (high - low);
      return Number(found.toPrecision(3)).toString();
    }

    const box = document.createElement("div");
    box.className = "readout";
    const slider = document.createElement("input");
    slider.type = "range";
    slider.min = 0;
    slider.max = steps;
    slider.value = steps;
    slider.setAttribute("aria-label", "Step at which to read the losses");
    const said = document.createElement("output");
    box.append(slider, said);
    const pane = svg.closest(".scroll");
    pane.before(box);
    // Where there is no room for all of it, what went wrong comes first.
    const telling = svg.querySelector(".first-wrong path, .fault-window path");
    if (telling && pane.scrollWidth > pane.clientWidth) {
      const ahead = telling.getBoundingClientRect().left - pane.getBoundingClientRect().left;
      pane.scrollLeft += ahead - pane.clientWidth / 2;
    }
    const cursor = svg.querySelector(".cursor");

    function read() {
      const step = Number(slider.value);
      const x = left + (step / steps) * (right - left);
      lines = lines || Array.from(svg.querySelectorAll("[data-name]"), (path) => [path.dataset.name, points(path)]);
      const parts = [];
      for (const [name, all] of lines) {
        const near = all.length ? nearest(all, x) : null;
        if (near && Math.abs(near[0] - x) <= Math.max(1.5, (0.6 * (right - left)) / steps)) parts.push(name + " ≈ " + loss(near[1]));
      }
      cursor.setAttribute("d", "M" + x + " " + top + "V" + bottom);
      said.textContent = "step " + step + (parts.length ? ": " + parts.join(", ") : ": no loss");
      slider.setAttribute("aria-valuetext", said.textContent);
    }

    slider.addEventListener("input", read);
    svg.addEventListener("pointermove", (event) => {
      const frame = svg.getBoundingClientRect();
      const x = ((event.clientX - frame.left) / frame.width) * svg.viewBox.baseVal.width;
      slider.value = Math.round(((x - left) / (right - left)) * steps);
      read();
    });
    said.textContent = "move the pointer over the picture, or the slider, to read the losses of a step";
  }
})();
