// What pages do in the browser: times and numbers in the reader's format, live parts, the chart, boxes that choose all.
// Everything else is HTML, so that pages work without this, too.
"use strict";
(() => {
  const moment = new Intl.DateTimeFormat(undefined, {
    year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
    fractionalSecondDigits: 3,
  });
  const today = new Intl.DateTimeFormat(undefined, {
    hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3,
  });
  const number = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
  const CLOCKS = { message: "message time", real: "real time" };
  const RETRY_MS = 2000;
  const CHART_MS = 2000;

  function show(root) {
    for (const one of root.querySelectorAll("time[data-ms]")) {
      const date = new Date(Number(one.dataset.ms));
      if (Number.isNaN(date.valueOf())) continue;
      // The date of today is left out in tables; the title has all.
      const isToday = date.toDateString() === new Date().toDateString();
      one.textContent = (isToday && one.closest("table, .timeline") ? today : moment).format(date);
      one.dateTime = date.toISOString();
      one.title = `${CLOCKS[one.dataset.clock]}: ${date.toISOString()}`;
    }
    for (const one of root.querySelectorAll("data[value]")) one.textContent = number.format(Number(one.value));
  }

  // -- live parts

  let source = null;
  let retry = 0;

  const connection = document.getElementById("connection");
  const connectionLost = connection?.textContent;

  function lost(isLost, why = connectionLost) {
    if (!connection) return;
    connection.textContent = why;
    connection.hidden = !isLost;
  }

  // An EventSource doesn't tell why it was refused.
  async function refused(address) {
    const stopped = new AbortController();
    try {
      const answer = await fetch(address, { headers: { "HX-Request": "true" }, signal: stopped.signal });
      if (answer.status === 401) return location.reload(); // The login is over: the page shows it.
      if (!answer.ok) lost(true, new DOMParser().parseFromString(await answer.text(), "text/html").body.textContent);
    } catch {
      // The endpoint is gone, as the words say already.
    } finally {
      stopped.abort();
    }
  }

  function stop() {
    clearTimeout(retry);
    if (source) source.close();
    source = null;
  }

  function follow() {
    stop();
    const live = document.getElementById("live");
    if (!live?.dataset.live || document.hidden) return;
    const opened = new EventSource(live.dataset.live);
    source = opened;
    opened.onopen = () => lost(false);
    opened.onmessage = (event) => {
      lost(false);
      const part = document.getElementById("live");
      // Back and forward replace the whole page.
      if (part?.dataset.live !== live.dataset.live) return follow();
      // A page that couldn't be made has neither its title nor its forms, so it is loaded again.
      if ("failed" in part.dataset && !event.data.includes('role="alert"')) return location.reload();
      Idiomorph.morph(part, event.data, { morphStyle: "innerHTML", ignoreActiveValue: true });
      show(part);
      htmx.process(part);
    };
    opened.onerror = () => {
      lost(true);
      // A browser gives up after a response that isn't a stream of events.
      if (opened.readyState !== EventSource.CLOSED || source !== opened) return;
      refused(live.dataset.live);
      retry = setTimeout(follow, RETRY_MS);
    };
  }

  // -- the chart

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function chart(place) {
    let plot = null;
    const axis = () => ({ stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } });
    const line = { width: 1.5, points: { show: false } };
    const shown = (_, value) => (value === null || value === undefined ? "-" : number.format(value));
    function draw(data) {
      if (data[0].length < 2) return;
      if (plot) return plot.setData(data);
      place.textContent = "";
      const series = [
        {}, { label: "stored", stroke: colour("--c0"), ...line, value: shown },
        { label: "delivered", stroke: colour("--c1"), ...line, value: shown },
      ];
      const size = { width: place.clientWidth, height: 220 };
      plot = new uPlot({ ...size, series, axes: [axis(), axis()], scales: { y: { range: (_, least, most) => [0, Math.max(1, most * 1.1)] } } }, data, place);
      new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: 220 })).observe(place);
    }
    async function next() {
      if (!document.hidden) {
        try {
          const answer = await fetch(place.dataset.rates);
          if (answer.ok) {
            const rates = await answer.json();
            draw([rates.times, rates.stored, rates.delivered]);
          }
        } catch {
          // The endpoint is gone; the live part says so.
        }
      }
      setTimeout(next, CHART_MS);
    }
    next();
  }

  // -- start

  document.addEventListener("change", (event) => {
    const name = event.target.dataset?.all;
    if (!name) return;
    for (const one of document.querySelectorAll(`input[name="${name}"]`)) one.checked = event.target.checked;
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    show(document);
    if (event.detail.elt.id === "live" || event.detail.target?.id === "live") follow();
  });
  document.addEventListener("htmx:historyRestore", () => {
    show(document);
    follow();
  });
  document.addEventListener("visibilitychange", follow);
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => event.persisted && follow());
  show(document);
  follow();
  const place = document.getElementById("chart");
  if (place) chart(place);
})();
