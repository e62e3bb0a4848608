"use strict";
// The pages are complete without this: it sorts and filters tables, copies commands, unfolds what a link leads to, and
// reads values out of pictures.
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

  for (const button of document.querySelectorAll("button.copy")) {
    const text = button.previousElementSibling;
    const done = () => {
      button.textContent = "copied";
      setTimeout(() => (button.textContent = "copy"), 2000);
    };
    // Where a page may not write to the clipboard, the command is selected.
    const select = () => getSelection().selectAllChildren(text);
    button.hidden = false;
    button.addEventListener("click", () => {
      if (navigator.clipboard) navigator.clipboard.writeText(text.textContent).then(done, select);
      else select();
    });
  }

  // Not every browser unfolds what a link leads to.
  function unfold() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", unfold);
  if (location.hash) unfold();

  const form = document.getElementById("filter");
  if (form) {
    const groups = Array.from(document.querySelectorAll(".group"), (group) => ({ group, open: group.open }));
    const all = Array.from(document.querySelectorAll("tr[data-codes]"));
    let active = false;
    const filter = () => {
      const code = form.elements.code.value;
      const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
      // Groups that a reader had unfolded are so again afterwards.
      if (!active) groups.forEach((each) => (each.open = each.group.open));
      active = Boolean(code || words.length);
      for (const row of all) {
        const text = row.textContent.toLowerCase();
        row.hidden = !((!code || row.dataset.codes.split(" ").includes(code)) && words.every((word) => text.includes(word)));
      }
      for (const { group, open } of groups) {
        group.hidden = active && !group.querySelector("tr[data-codes]:not([hidden])");
        group.open = active || open;
      }
      const left = all.filter((row) => !row.hidden).length;
      form.querySelector("output").textContent = active ? left + " of " + all.length + " experiments" : "";
    };
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.hidden = false;
  }

  // The newest nights are on the right.
  for (const grid of document.querySelectorAll("table.grid")) grid.closest(".scroll").scrollLeft = grid.offsetWidth;

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
