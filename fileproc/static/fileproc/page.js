import { follow } from "./events.js"

const app = document.getElementById("app")
const words = (name) => app.dataset["words" + name[0].toUpperCase() + name.slice(1)]
const $ = (id) => document.getElementById(id)
const endings = new Set(app.dataset.endings.split(" "))
const MANIFEST = 500, AT_ONCE = 4

async function call(method, path, body) {
  for (let wait = 1000; ; wait = Math.min(wait * 2, 30000)) {
    let answer
    try {
      answer = await fetch(app.dataset.api + path, {
        method, credentials: "same-origin",
        headers: { "Content-Type": "application/json", "X-CSRFToken": csrf() },
        body: body === undefined ? undefined : JSON.stringify(body),
      })
    } catch { answer = null }
    if (answer && answer.status !== 429 && answer.status < 500) {
      const data = answer.status === 204 ? null : await answer.json().catch(() => null)
      if (answer.ok) return data
      if (answer.status === 401) location.reload()
      throw Object.assign(new Error(data?.detail ?? answer.statusText), { code: data?.errorCode, data })
    }
    tell(words("lost"))
    const asked = Number(answer?.headers.get("Retry-After"))
    await new Promise((go) => setTimeout(go, asked ? asked * 1000 : wait))
  }
}

function csrf() {
  return document.querySelector("[name=csrfmiddlewaretoken]").value
}

function tell(text) { $("told").textContent = text }

function element(tag, text = "", className = "") {
  const made = document.createElement(tag)
  if (text) made.textContent = text
  if (className) made.className = className
  return made
}

/* ---- choosing: every file of a folder, however deep, with its path in it */

async function walk(entry, path, found) {
  if (entry.isFile) {
    const file = await new Promise((good, bad) => entry.file(good, bad))
    found.push({ file, path })
    return
  }
  const reader = entry.createReader()
  for (;;) {  // a reader gives a hundred entries at a time
    const some = await new Promise((good, bad) => reader.readEntries(good, bad))
    if (!some.length) return
    for (const one of some) await walk(one, path ? `${path}/${entry.name}` : entry.name, found)
  }
}

const drop = $("drop")
drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over") })
drop.addEventListener("dragleave", () => drop.classList.remove("over"))
drop.addEventListener("drop", async (event) => {
  event.preventDefault()
  drop.classList.remove("over")
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean)
  const found = []
  for (const entry of entries) await walk(entry, "", found)
  send(found)
})
for (const id of ["folder", "files"]) {
  $(id).addEventListener("change", ({ target }) => {
    const found = [...target.files].map((file) => ({
      file, path: file.webkitRelativePath.split("/").slice(0, -1).join("/"),
    }))
    target.value = ""
    send(found)
  })
}

/* ---- sending: in batches of 500, going on where an earlier visit was broken off */

const withOcr = () => $("ocr")?.checked ?? true

const key = (path, name, size, modified) => [path, name, size, modified].join("\n")

async function known() {
  const found = new Map()
  for (let cursor = ""; cursor !== null;) {
    const page = await call("GET", `files?limit=200${cursor && "&cursor=" + encodeURIComponent(cursor)}`)
    for (const one of page.data) {
      const mark = key(one.path, one.fileName, one.sizeBytes, one.lastModified)
      const before = found.get(mark)
      if (!before || rank(one) > rank(before)) found.set(mark, one)
    }
    cursor = page.page.next
  }
  return found
}

const rank = (one) => (one.status === "failed" ? 0 : one.status === "registered" ? 1 : 2)

let queue = Promise.resolve()
function send(found) { queue = queue.then(() => sendNow(found)).catch((error) => tell(error.message)) }

async function sendNow(found) {
  const fresh = [], resumed = [], left = [], lost = []
  let there = 0
  const before = await known()
  for (const { file, path } of found) {
    const dot = file.name.lastIndexOf(".")
    const ending = dot < 0 ? "" : file.name.slice(dot).toLowerCase()
    const reason = !endings.has(ending) ? "type" : !file.size ? "empty" : file.size > Number(app.dataset.most) ? "large" : ""
    if (reason) { left.push([path, file, words(reason)]); continue }
    const old = before.get(key(path, file.name, file.size, String(file.lastModified)))
    if (!old) fresh.push({ file, path })
    else if (old.status === "registered") resumed.push({ file, path, old })
    else there += 1
  }
  const total = fresh.length + resumed.length
  let done = 0
  $("sending").hidden = false
  const show = () => {
    $("bar").max = Math.max(total, 1)
    $("bar").value = total ? done : 1
    const parts = [`${done} / ${total} ${words("uploading")}`]
    if (there) parts.push(`${there} ${words("there")}`)
    if (left.length) parts.push(`${left.length} ${words("skipped")}`)
    tell(parts.join(" · "))
  }
  show()
  const step = ({ path, file }, problem) => {
    done += 1
    if (problem) lost.push([path, file, problem])
    show()
  }
  const again = new Map()
  for (const one of resumed) {
    again.set(one.old.batchId, [...(again.get(one.old.batchId) ?? []), one])
  }
  for (const [batch, some] of again) {
    await put(batch, some, step, async ({ old }) => {
      try {
        return await call("POST", `batches/${batch}/files/${old.fileId}/upload-url`)
      } catch { return null }  // confirmed or expired meanwhile
    })
  }
  for (let start = 0; start < fresh.length; start += MANIFEST) {
    const some = fresh.slice(start, start + MANIFEST)
    const made = await call("POST", "batches", {
      skipDuplicateCheck: true, ocr: withOcr(),
      files: some.map(({ file, path }, n) => ({
        tempId: String(n), fileName: file.name, sizeBytes: file.size, path,
        lastModified: String(file.lastModified),
      })),
    })
    for (const one of made.refused) step(some[Number(one.tempId)], one.message)
    refresh()
    const places = new Map(made.files.map((one) => [one.tempId, one]))
    const taken = some.map((one, n) => ({ ...one, place: places.get(String(n)) })).filter((one) => one.place)
    await put(made.batchId, taken, step, async ({ place }) => place)
  }
  show()
  if (total) tell(`${$("told").textContent} · ${lost.length ? `${lost.length} ${words("incomplete")}` : words("done")}`)
  const listed = [...lost, ...left]
  $("left").hidden = !listed.length
  $("left").querySelector("ul").replaceChildren(...listed.map(([path, file, problem]) => (
    element("li", `${path ? path + "/" : ""}${file.name}: ${problem}`))))
  refresh()
}

async function put(batch, some, step, placeOf) {
  const waiting = [...some]
  let arrived = []
  const confirm = async () => {
    const files = arrived.splice(0).map((fileId) => ({ fileId }))
    if (files.length) await call("POST", `batches/${batch}/confirm`, { files })
  }
  const one = async () => {
    for (let next; (next = waiting.shift());) {
      const place = await placeOf(next)
      const problem = place ? await upload(place, next.file) : ""
      if (place && !problem) arrived.push(place.fileId)
      step(next, problem)
      if (arrived.length >= 25) await confirm()
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, one))
  await confirm()
}

/* The new file takes the place of the old one, and its folder, once it is ready. */
function replace(old) {
  const chooser = element("input")
  chooser.type = "file"
  chooser.addEventListener("change", () => {
    const file = chooser.files[0]
    queue = queue.then(async () => {
      const made = await call("POST", "batches", {
        skipDuplicateCheck: true, ocr: withOcr(),
        files: [{
          fileName: file.name, sizeBytes: file.size, lastModified: String(file.lastModified),
          replaceFileId: old.fileId,
        }],
      })
      tell(words("replacing"))
      await put(made.batchId, [{ file, place: made.files[0] }], (_, problem) => problem && tell(problem),
        async ({ place }) => place)
      refresh()
    }).catch((error) => tell(error.message))
  })
  chooser.click()
}

/* Return why the file could not be uploaded; nothing if it is there. */
async function upload(place, file) {
  for (let tries = 0; tries < 8; tries += 1) {
    try {
      const answer = await fetch(place.uploadUrl, { method: "PUT", headers: place.headers, body: file })
      // Nothing is ever replaced: 409, or 412 of S3, says that it is there already.
      if (answer.ok || answer.status === 409 || answer.status === 412) return ""
      if (answer.status < 500 && answer.status !== 429 || answer.status === 507) {
        const problem = await answer.json().catch(() => null)  // S3 answers in XML
        return problem?.detail ?? `${answer.status} ${answer.statusText}`
      }
    } catch { /* the connection was lost */ }
    await new Promise((go) => setTimeout(go, Math.min(1000 * 2 ** tries, 30000)))
  }
  return words("lost")
}

/* ---- what there is */

const opened = new Set()
let asked = null
function refresh() { asked ??= setTimeout(async () => { asked = null; await showBatches().catch(() => {}) }, 200) }

async function showBatches() {
  const { data } = await call("GET", "batches?limit=20")
  const isGone = ({ status, summary }) => status === "completed" && !summary.total
  const rows = data.filter((batch) => !isGone(batch)).map((batch) => row(batch))
  $("batches").replaceChildren(...(rows.length ? rows : [element("p", words("nobatch"), "quiet")]))
}

function row(batch) {
  const { total, ready, failed } = batch.summary
  const made = element("details")
  made.open = opened.has(batch.batchId)
  const head = element("summary", `${new Date(batch.createdAt).toLocaleString()} · ${ready + failed} / ${total} `)
  head.append(element("span", `${ready} ${words("ready")} `, "good"))
  if (failed) head.append(element("span", `${failed} ${words("failed")}`, "bad"))
  const bar = element("progress")
  bar.max = Math.max(total, 1)
  bar.value = ready + failed
  bar.setAttribute("aria-label", `${ready + failed} / ${total}`)
  made.append(head, bar)
  if (batch.status === "active" || batch.status === "pending_upload") {
    made.append(button(words("cancel"), () => call("DELETE", `batches/${batch.batchId}`)))
  }
  const list = element("ul")
  made.append(list)
  made.addEventListener("toggle", () => {
    if (made.open) opened.add(batch.batchId)
    else opened.delete(batch.batchId)
    if (made.open) showFiles(batch, list)
  })
  if (made.open) showFiles(batch, list)
  return made
}

async function showFiles(batch, list) {
  const data = []
  for (let cursor = ""; cursor !== null;) {
    const more = cursor && "&cursor=" + encodeURIComponent(cursor)
    const page = await call("GET", `files?limit=200&batchId=${batch.batchId}${more}`)
    data.push(...page.data)
    cursor = page.page.next
  }
  list.replaceChildren(...data.map((file) => {
    const item = element("li", `${file.path ? file.path + "/" : ""}${file.fileName} `)
    const tone = file.status === "ready" ? "good" : file.status === "failed" ? "bad" : "quiet"
    item.append(element("span", `${words(file.status)} `, tone))
    if (file.error) {
      item.append(element("span", `${file.error.message} (${file.error.code}) `, "bad"))
      if (file.error.retryable && batch.status !== "cancelled") {
        item.append(button(words("retry"), () => call("POST", `dlq/${file.fileId}/retry`)))
      }
    }
    if (file.status === "ready") {
      item.append(button(words("reprocess"), async () => {
        await call("POST", `files/${file.fileId}/reprocess`)
        tell(words("reprocessing"))
      }), " ", button(words("replace"), () => replace(file)))
    }
    item.append(" ", button(words("delete"), () => confirm(words("sure")) && call("DELETE", `files/${file.fileId}`)))
    return item
  }))
}

function button(label, act) {
  const made = element("button", label)
  made.type = "button"
  made.addEventListener("click", async () => {
    made.disabled = true
    try { await act() } catch (error) { tell(error.message) }
    made.disabled = false
    refresh()
  })
  return made
}

/* ---- search */

$("search").addEventListener("submit", async (event) => {
  event.preventDefault()
  try {
    const found = await call("POST", "search", { q: new FormData(event.target).get("q") })
    $("mode").hidden = found.mode !== "text"
    $("mode").textContent = words("text")
    const hits = found.hits.map((hit) => {
      const item = element("li")
      const place = [hit.fileName]
      if (hit.pages) place.push(`${words("page")} ${hit.pages[0]}${hit.pages[1] > hit.pages[0] ? "–" + hit.pages[1] : ""}`)
      if (hit.headings.length) place.push(hit.headings.join(" › "))
      item.append(element("mark", place.join(" · ")), element("div", hit.snippet))
      return item
    })
    $("hits").replaceChildren(...(hits.length ? hits : [element("p", words("nothing"), "quiet")]))
  } catch (error) { tell(error.message) }
})

function notice({ topic, payload }) {
  if (topic === "file:reprocessed") tell(words(payload.error ? "unchanged" : "reprocessed"))
  refresh()
}

follow({ url: app.dataset.events, tenant: app.dataset.owner, onEvent: notice, onGap: refresh, onState: (up) => up && refresh() })
showBatches()
