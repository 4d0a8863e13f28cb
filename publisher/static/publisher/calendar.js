// Move posts of the calendar to another day: by dragging them, or with Shift and an arrow key.
"use strict";

(() => {
  const days = document.querySelector("[data-calendar][data-movable]");
  if (!days) return;
  const cells = [...days.querySelectorAll("[data-day]")];
  const STEPS = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -7, ArrowDown: 7 };
  let dragged = null;

  const move = (entry, day) => {
    const form = entry.querySelector("form");
    if (!form || entry.closest("[data-day]").dataset.day === day) return;
    form.elements.day.value = day;
    form.submit();
  };

  const later = (day, step) => {
    const found = new Date(`${day}T00:00:00Z`);
    found.setUTCDate(found.getUTCDate() + step);
    return found.toISOString().slice(0, 10);
  };

  const mark = (cell) => {
    for (const one of cells) one.classList.toggle("pc-target", one === cell);
  };

  days.addEventListener("dragstart", (event) => {
    dragged = event.target.closest?.("[draggable=true]");
    if (dragged) event.dataTransfer.effectAllowed = "move";
  });
  days.addEventListener("dragover", (event) => {
    const cell = event.target.closest("[data-day]");
    if (!dragged || !cell) return;
    event.preventDefault();
    mark(cell);
  });
  days.addEventListener("drop", (event) => {
    const cell = event.target.closest("[data-day]");
    if (!dragged || !cell) return;
    event.preventDefault();
    move(dragged, cell.dataset.day);
  });
  days.addEventListener("dragend", () => {
    dragged = null;
    mark(null);
  });
  days.addEventListener("keydown", (event) => {
    const entry = event.target.closest("[draggable=true]");
    const step = STEPS[event.key];
    if (!entry || !step || !event.shiftKey || !event.target.matches("a, summary")) return;
    event.preventDefault();
    move(entry, later(entry.closest("[data-day]").dataset.day, step));
  });
})();
