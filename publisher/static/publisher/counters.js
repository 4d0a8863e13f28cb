// Show below the text of a plan how long it is on each channel, as the server counts it.
"use strict";

(() => {
  const area = document.querySelector("textarea[data-counters]");
  if (!area) return;
  const form = area.form;
  const region = document.createElement("div");
  const list = document.createElement("ul");
  list.className = "jd-quiet";
  region.setAttribute("role", "status");
  region.append(list);
  area.after(region);
  const plan = /\/plan\/([0-9a-f-]{36})\//.exec(location.pathname);
  let latest = 0;
  let timer = 0;

  const line = (one) => {
    const item = document.createElement("li");
    const text = document.createElement(one.is_over ? "strong" : "span");
    text.textContent = one.text;
    item.append(text);
    return item;
  };

  const count = async () => {
    const number = ++latest;
    const body = new FormData(form);
    if (plan) body.append("plan", plan[1]);
    const answer = await fetch(area.dataset.counters, { method: "POST", body }).catch(() => null);
    if (!answer || !answer.ok || number !== latest) return;
    list.replaceChildren(...(await answer.json()).counters.map(line));
  };

  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(count, 300);
  };

  form.addEventListener("input", soon);
  form.addEventListener("change", soon);
  count();
})();
