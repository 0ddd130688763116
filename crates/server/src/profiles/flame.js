"use strict";
(function () {
  var script = document.currentScript;
  var svg = (script && script.ownerSVGElement) || document.documentElement;
  var find = function (id) { return svg.querySelector("#" + id); };
  var detail = find("detail"), reset = find("reset"), search = find("search"), matched = find("matched");
  var note = detail.textContent;
  var boxes = Array.prototype.map.call(svg.querySelectorAll("g.f"), function (group) {
    var rect = group.querySelector("rect");
    var title = group.querySelector("title").textContent;
    return {
      group: group, rect: rect, text: group.querySelector("text"), title: title,
      name: title.slice(0, title.lastIndexOf(" \u2014 ")),
      x: +rect.getAttribute("x"), width: +rect.getAttribute("width"), y: +rect.getAttribute("y")
    };
  });
  if (!boxes.length) { return; }
  var root = boxes[0], shown = root;

  function place(box, x, width) {
    box.rect.setAttribute("x", x.toFixed(2));
    box.rect.setAttribute("width", width.toFixed(2));
    box.text.setAttribute("x", (x + 3).toFixed(2));
    var room = Math.floor((width - 6) / 7);
    box.text.textContent =
      room < 3 ? "" : box.name.length <= room ? box.name : box.name.slice(0, room - 1) + "\u2026";
  }

  function zoom(to) {
    shown = to;
    var scale = root.width / to.width, end = to.x + to.width;
    boxes.forEach(function (box) {
      var above = box.y < to.y && box.x <= to.x + 0.01 && box.x + box.width >= end - 0.01;
      var inside = box.y >= to.y && box.x >= to.x - 0.01 && box.x + box.width <= end + 0.01;
      box.group.style.display = above || inside ? "" : "none";
      box.group.classList.toggle("d", above && box !== to);
      if (above) { place(box, root.x, root.width); }
      if (inside) { place(box, root.x + (box.x - to.x) * scale, box.width * scale); }
    });
    reset.setAttribute("visibility", to === root ? "hidden" : "visible");
    add();
  }

  var pattern = null;
  function add() {
    var end = shown.x + shown.width, sum = 0, covered = -1;
    boxes.forEach(function (box) { box.group.classList.toggle("m", !!pattern && pattern.test(box.name)); });
    if (!pattern) { matched.textContent = ""; return; }
    var spans = boxes.filter(function (box) {
      return pattern.test(box.name) && box.y >= shown.y && box.x >= shown.x - 0.01 && box.x + box.width <= end + 0.01;
    }).sort(function (a, b) { return a.x - b.x || b.width - a.width; });
    spans.forEach(function (box) {
      var stop = box.x + box.width;
      if (stop > covered) { sum += stop - Math.max(covered, box.x); covered = stop; }
    });
    matched.textContent = "matched: " + (100 * sum / shown.width).toFixed(2) + "%";
  }

  function ask() {
    if (pattern) { pattern = null; search.textContent = "search"; add(); return; }
    var text = window.prompt("Functions that match (a regular expression):", "");
    if (!text) { return; }
    try { pattern = new RegExp(text); } catch (error) { window.alert(String(error)); return; }
    search.textContent = "clear";
    add();
  }

  boxes.forEach(function (box) {
    box.group.addEventListener("click", function () { zoom(box); });
    box.group.addEventListener("mouseenter", function () { detail.textContent = box.title; });
    box.group.addEventListener("mouseleave", function () { detail.textContent = note; });
  });
  search.setAttribute("visibility", "visible");
  search.addEventListener("click", ask);
  reset.addEventListener("click", function () { zoom(root); });
  window.addEventListener("keydown", function (event) {
    if (event.key === "Escape") { zoom(root); }
    if (event.key === "/" || ((event.ctrlKey || event.metaKey) && event.key === "f")) { event.preventDefault(); ask(); }
  });
})();
