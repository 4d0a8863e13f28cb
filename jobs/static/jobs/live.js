// Live regions, relative times, copy buttons, selection and keyboard. No dependency; obeys a
// strict content security policy. A region is <section id data-jd-live="seconds">.
(() => {
  "use strict";
  const root = document.querySelector(".jd");
  if (!root) return;
  const lang = document.documentElement.lang || "en";
  const all = (selector, scope = root) => [...scope.querySelectorAll(selector)];

  // ---- times: the server writes moments, the page tells how long ago they are
  const relative = new Intl.RelativeTimeFormat(lang, { style: "narrow", numeric: "always" });
  const STEPS = [["second", 60], ["minute", 60], ["hour", 24], ["day", 365], ["year", Infinity]];
  const now = new Intl.RelativeTimeFormat(lang, { style: "narrow", numeric: "auto" }).format(0, "second");
  const ago = (seconds) => {
    if (Math.abs(seconds) < 1) return now;
    let value = seconds;
    for (const [unit, size] of STEPS) {
      if (Math.abs(value) < size) return relative.format(Math.trunc(value), unit);
      value /= size;
    }
    return "";
  };
  const span = (seconds) => {
    const s = Math.max(0, Math.floor(seconds));
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  };
  const skew = Date.now() - (Date.parse(root.dataset.now) || Date.now());
  const tickTimes = () => {
    const moment = Date.now() - skew;
    for (const el of all("time[data-jd-time]")) {
      const seconds = (Date.parse(el.dateTime) - moment) / 1000;
      const text = el.dataset.jdTime === "for" ? span(-seconds) : ago(seconds);
      if (el.textContent !== text) el.textContent = text;
    }
  };
  tickTimes();
  setInterval(tickTimes, 1000);

  // ---- live regions
  const KEY = "jobs.live";
  const regions = all("[data-jd-live]");
  const pill = root.querySelector(".jd-live");
  const announcer = root.querySelector("[data-jd-announcer]");
  const etags = new Map();
  const late = new Set(); // regions that somebody was at when they went stale
  let on = localStorage.getItem(KEY) !== "off";
  let finished = false;
  let failures = 0;
  let timer = null;
  const paint = (state) => {
    if (!pill) return;
    pill.hidden = false;
    pill.dataset.state = state;
    pill.title = pill.dataset[`${state}Title`] ?? "";
    pill.setAttribute("aria-pressed", String(on));
    pill.querySelector("[data-jd-label]").textContent = pill.dataset[state];
  };
  const busy = (el) => {
    const selection = getSelection();
    const selects = selection && !selection.isCollapsed && el.contains(selection.anchorNode);
    const active = document.activeElement;
    const types = el.contains(active) && active.matches("input, textarea, select");
    return selects || types || el.querySelector(".jd-menu[open]") !== null;
  };
  // What has the keyboard keeps it when its region is renewed: the same link, or the same place.
  const CAN_FOCUS = "a[href], button, summary, input, select, textarea, [tabindex]";
  const focused = (el) => {
    const active = document.activeElement;
    if (!el.contains(active)) return () => {};
    const { id } = active.closest("[id]");
    const link = active.getAttribute("href");
    const place = all(CAN_FOCUS, document.getElementById(id)).indexOf(active);
    return () => {
      const home = document.getElementById(id);
      if (!home) return;
      const same = link === null ? [home, ...all(CAN_FOCUS, home)][place + 1] : all("a[href]", home).find((a) => a.getAttribute("href") === link);
      same?.focus({ preventScroll: true });
    };
  };
  // Rows under the pointer keep their places: each is renewed where it stands, and another order,
  // and new rows, come when the pointer has left.
  const POINTS = matchMedia("(hover: hover)");
  const rowsIn = (body) => all("tr[data-jd-row]", body);
  const nameOf = (tr) => tr.querySelector("th a[href]")?.getAttribute("href");
  const steady = (el, fresh) => {
    const body = POINTS.matches && el.querySelector("tbody:hover");
    const renewed = body && fresh.querySelector("tbody");
    const shown = renewed ? rowsIn(body) : [];
    const names = shown.map(nameOf);
    if (!names.length || names.includes(undefined)) return () => {};
    const known = new Map(rowsIn(renewed).map((tr) => [nameOf(tr), tr]));
    if (names.join() !== [...known.keys()].join()) {
      late.add(el.id);
      etags.delete(el.id);
      renewed.replaceChildren(...shown.map((tr) => known.get(nameOf(tr)) ?? tr.cloneNode(true)));
    }
    const place = shown.findIndex((tr) => tr.matches(":hover"));
    const top = shown[place]?.getBoundingClientRect().top;
    return () => {
      const moved = rowsIn(el)[place];
      if (moved) scrollBy({ top: moved.getBoundingClientRect().top - top, behavior: "instant" });
    };
  };
  const pull = async (el) => {
    if (busy(el)) { late.add(el.id); return; }
    late.delete(el.id);
    const url = new URL(location.href);
    url.searchParams.set("_fragment", el.id);
    const headers = { "X-Requested-With": "jobs-live" };
    if (etags.has(el.id)) headers["If-None-Match"] = etags.get(el.id);
    const answer = await fetch(url, { headers, credentials: "same-origin", redirect: "error", cache: "no-store" });
    if (answer.status === 304) return;
    if (!answer.ok) throw new Error(String(answer.status));
    etags.set(el.id, answer.headers.get("ETag"));
    const html = await answer.text();
    if (busy(el)) { etags.delete(el.id); late.add(el.id); return; }
    const open = new Map(all("details[id]", el).map((d) => [d.id, d.open]));
    const focus = focused(el);
    const checked = all("input[name=_selected]:checked", el).map((box) => box.value);
    const fresh = document.createElement("template");
    fresh.innerHTML = html;
    const stay = steady(el, fresh.content);
    el.replaceChildren(fresh.content);
    for (const [id, is] of open) { const d = document.getElementById(id); if (d) d.open = is; }
    for (const box of all("input[name=_selected]", el)) box.checked = checked.includes(box.value);
    focus();
    stay();
    const words = el.querySelector("[data-jd-say]")?.dataset.jdSay;
    if (words && announcer && announcer.textContent !== words) announcer.textContent = words;
    finished = regions.every((r) => r.querySelector("[data-jd-final]"));
    tickTimes();
    count();
  };
  const seconds = () => Math.min(...regions.map((r) => Number(r.dataset.jdLive) || 5));
  // One stream per page tells which regions are stale, where the server has one; until it does,
  // and wherever it breaks off, the page asks by itself. The mark says what was so last.
  const SILENCE = 25000;
  let stream = null;
  let watch = null;
  let streams = "stream" in root.dataset && "EventSource" in window;
  const wanted = () => on && !finished && !document.hidden;
  const hush = () => { clearTimeout(watch); stream?.close(); stream = null; };
  const settle = (good) => {
    failures = good ? 0 : failures + 1;
    if (finished) { hush(); paint("finished"); }
    else if (on) paint(!good ? "offline" : stream?.live ? "live" : "polling");
  };
  const refresh = async (stale) => {
    try { await Promise.all(stale.map(pull)); settle(true); return true; }
    catch { settle(false); return false; }
  };
  const listen = () => {
    const url = new URL(location.href);
    url.searchParams.set("_stream", seconds());
    const own = stream = new EventSource(url);
    const alive = () => { clearTimeout(watch); watch = setTimeout(broken, SILENCE); };
    const broken = () => { if (stream === own) { hush(); tick(); } };
    alive();
    own.addEventListener("stale", async (event) => {
      if (stream !== own) return;
      alive();
      clearTimeout(timer);
      own.live = true;
      const stale = new Set(JSON.parse(event.data));
      for (const el of [...late]) stale.add(el);
      const ok = await refresh(regions.filter((r) => stale.has(r.id)));
      if (!ok) broken();
    });
    own.addEventListener("closed", () => { streams = false; broken(); });
    own.onerror = broken;
  };
  const tick = async () => {
    clearTimeout(timer);
    if (!wanted()) return;
    if (await refresh(regions) && streams && !stream && wanted()) listen();
    if (wanted() && !stream?.live) timer = setTimeout(tick, 1000 * seconds() * Math.min(12, 2 ** failures));
  };
  const toggle = () => {
    on = !on;
    localStorage.setItem(KEY, on ? "on" : "off");
    if (on) { finished = false; tick(); } else { clearTimeout(timer); hush(); paint("stopped"); }
  };
  if (regions.length) {
    pill?.addEventListener("click", toggle);
    root.addEventListener("pointerout", (event) => {
      const body = event.target.closest("tbody");
      const el = body?.closest("[data-jd-live]");
      if (wanted() && late.has(el?.id) && !body.contains(event.relatedTarget)) refresh([el]);
    });
    document.addEventListener("visibilitychange", () => { if (document.hidden) { clearTimeout(timer); hush(); } else tick(); });
    addEventListener("pagehide", hush);
    addEventListener("offline", () => { hush(); if (wanted()) paint("offline"); });
    addEventListener("online", () => { failures = 0; tick(); });
    finished = regions.every((r) => r.querySelector("[data-jd-final]"));
    if (finished) paint("finished");
    else if (on) tick();
    else paint("stopped");
  }

  // ---- copying, disabled buttons, menus
  root.addEventListener("click", async (event) => {
    const dead = event.target.closest("[aria-disabled=true]");
    if (dead) { event.preventDefault(); return; }
    const button = event.target.closest("[data-jd-copy]");
    if (!button) return;
    const source = button.dataset.jdCopy.startsWith("#") ? document.querySelector(button.dataset.jdCopy).textContent : button.dataset.jdCopy;
    await navigator.clipboard.writeText(source);
    if (announcer) announcer.textContent = button.dataset.jdCopied;
    const words = button.textContent;
    button.textContent = button.dataset.jdCopied;
    setTimeout(() => { button.textContent = words; }, 1500);
  });
  // An open menu hangs from its button, or stands on it where there is no room below.
  const EDGE = 8;
  const place = (menu) => {
    const list = menu.querySelector(":scope > div");
    list.style.transform = "none";
    const { top, bottom, right } = menu.querySelector("summary").getBoundingClientRect();
    const { width, height } = list.getBoundingClientRect();
    const below = bottom + height + EDGE <= innerHeight ? bottom : top - height;
    list.style.top = `${Math.max(EDGE, below)}px`;
    list.style.left = `${Math.max(EDGE, Math.min(right, innerWidth - EDGE) - width)}px`;
  };
  const placeOpen = () => all(".jd-menu[open]").forEach(place);
  root.addEventListener("toggle", placeOpen, true);
  document.addEventListener("scroll", placeOpen, { capture: true, passive: true });
  addEventListener("resize", placeOpen);
  document.addEventListener("click", (event) => {
    for (const menu of all(".jd-menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });

  // ---- selection
  const boxes = () => all("input[name=_selected]");
  function count() {
    const bar = root.querySelector("[data-jd-selection]");
    if (!bar) return;
    const n = boxes().filter((box) => box.checked).length;
    bar.querySelector("[data-jd-selected]").textContent = n;
    const nothing = n === 0 && !bar.querySelector("input[name=all]")?.checked;
    for (const button of all("button[name=action]", bar)) {
      if (nothing) button.setAttribute("aria-disabled", "true");
      else button.removeAttribute("aria-disabled");
      button.title = nothing ? bar.dataset.jdNone : "";
    }
    const every = root.querySelector("[data-jd-every]");
    if (every) { every.checked = n > 0 && n === boxes().length; every.indeterminate = n > 0 && n < boxes().length; }
  }
  root.addEventListener("change", (event) => {
    if (event.target.matches("[data-jd-every]")) for (const box of boxes()) box.checked = event.target.checked;
    count();
  });
  count();

  // ---- keyboard
  const KEYS = "jobs.keys";
  const help = root.querySelector("dialog[data-jd-help]");
  const rows = () => all("tr[data-jd-row]");
  let row = -1;
  const go = (step) => {
    const found = rows();
    if (!found.length) return;
    row = Math.max(0, Math.min(found.length - 1, row + step));
    for (const [n, tr] of found.entries()) tr.classList.toggle("jd-current", n === row);
    found[row].querySelector("a")?.focus();
  };
  const DOES = {
    "/": () => root.querySelector("input[type=search]")?.focus(),
    r: () => regions.length && toggle(),
    j: () => go(1),
    k: () => go(-1),
    x: () => { const box = rows()[row]?.querySelector("input[name=_selected]"); if (box) { box.checked = !box.checked; count(); } },
    "?": () => help?.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && root.querySelector(".jd-menu[open]");
    if (menu) { menu.open = false; menu.querySelector("summary").focus(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest?.("input, textarea, select, [contenteditable], dialog")) return;
    if (event.key !== "?" && localStorage.getItem(KEYS) === "off") return;
    if (DOES[event.key]) { event.preventDefault(); DOES[event.key](); }
  });
  const off = root.querySelector("[data-jd-keys]");
  if (off) {
    off.checked = localStorage.getItem(KEYS) !== "off";
    off.addEventListener("change", () => localStorage.setItem(KEYS, off.checked ? "on" : "off"));
  }
  root.querySelector("[data-jd-close]")?.addEventListener("click", () => help.close());
  const opener = root.querySelector("[data-jd-open-help]");
  if (opener) { opener.hidden = false; opener.addEventListener("click", () => help?.showModal()); }
  // A list of suggestions completes whole values: each is offered behind the words before it.
  const words = root.querySelector("[data-jd-words]");
  words?.addEventListener("input", () => {
    const before = words.value.slice(0, words.value.lastIndexOf(" ") + 1);
    for (const one of document.getElementById(words.dataset.jdWords).options) {
      one.value = before + one.dataset.jdWord;
    }
  });
})();
