/* Follow the events of your uploads:

     import { follow } from "/static/fileproc/events.js"
     const stop = follow({ url: "/ws/events", onEvent: (event) => …, onGap: () => …, onState: (up) => … })

   Every event comes once and in order. After a loss of the connection it goes on where it was;
   onGap is called where that is no longer possible, so that the present state is read again.
   The returned function ends it. */

const TOPICS = "file:status-changed,batch:progress,batch:completed,file:processing-stalled,file:reprocessed"
const FINAL = [4400, 4401, 4403, 4404]

export function follow({ url, batch = "", tenant = "", topics = TOPICS, since = null, onEvent, onGap = () => {}, onState = () => {} }) {
  let place = since, socket = null, timer = null, over = false
  function connect() {
    const address = new URL(url, location.href)
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:"
    address.searchParams.set("topics", topics)
    if (batch) address.searchParams.set("batch", batch)
    if (tenant) address.searchParams.set("tenant", tenant)
    if (place !== null) address.searchParams.set("since", place)
    socket = new WebSocket(address)
    socket.onopen = () => onState(true)
    socket.onmessage = (message) => {
      const { position, events = [] } = JSON.parse(message.data)
      events.forEach(onEvent)
      place = position
    }
    socket.onclose = ({ code }) => {
      if (over) return
      onState(false)
      if (code === 4410) { place = null; onGap() }
      if (!FINAL.includes(code)) timer = setTimeout(connect, 1000 + 2000 * Math.random())
    }
  }
  connect()
  return () => { over = true; clearTimeout(timer); socket?.close() }
}
