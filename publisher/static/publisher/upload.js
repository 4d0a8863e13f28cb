// Send a file from the form of an upload: announce it, put its bytes into the store, confirm it.
"use strict";

(() => {
  const input = document.querySelector("input[type=file][data-sending]");
  if (!input) return;
  const form = input.form;
  const bar = document.createElement("progress");
  const said = document.createElement("p");
  said.setAttribute("role", "status");
  bar.hidden = true;
  form.append(bar, said);

  const post = () =>
    fetch(form.action || location.href, {
      method: "POST", body: new FormData(form), headers: { Accept: "application/json" },
    });

  const put = (to, file) =>
    new Promise((resolve, reject) => {
      const call = new XMLHttpRequest();
      call.open(to.method, to.url);
      for (const [name, value] of Object.entries(to.headers)) {
        if (name.toLowerCase() !== "content-length") call.setRequestHeader(name, value);
      }
      call.upload.onprogress = (event) => {
        bar.max = event.total;
        bar.value = event.loaded;
      };
      call.onload = () => (call.status < 300 ? resolve() : reject(new Error(`${call.status}`)));
      call.onerror = () => reject(new Error("0"));
      call.send(file);
    });

  const refused = async (answer) => {
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const words = page.querySelectorAll("[role=alert], .jd-error");
    said.textContent = [...words].map((one) => one.textContent.trim()).join(" ") || input.dataset.failed;
  };

  const send = async (file) => {
    form.elements.name.value = file.name.slice(-150);
    form.elements.size.value = file.size;
    form.elements.content_type.value = file.type;
    const announced = await post();
    if (!announced.ok) return refused(announced);
    const to = await announced.json();
    bar.hidden = false;
    await put(to, file);
    form.elements.asset.value = to.id;
    const confirmed = await post();
    if (!confirmed.ok) return refused(confirmed);
    location.assign((await confirmed.json()).url);
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const [file] = input.files;
    if (!file) return;
    const button = form.querySelector("button");
    button.disabled = true;
    form.elements.asset.value = "";
    said.textContent = input.dataset.sending;
    try {
      await send(file);
    } catch {
      said.textContent = input.dataset.failed;
    }
    bar.hidden = true;
    button.disabled = false;
  });
})();
