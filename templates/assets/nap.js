// The ticket page: counts down and asks from time to time whether there is room; once, when it is
// called or its time has come, it comes back or sends its form again.
(function () {
  "use strict";
  var page = document.getElementById("nap");
  var waits = page && page.dataset.returnMs;
  if (!waits) return;
  var due = Number(waits), first = page.dataset.wait;
  var began = performance.now(), beganDate = Date.now();
  var stop = document.getElementById("nap-stop"), auto = document.getElementById("nap-auto");
  var stopped = document.getElementById("nap-stopped"), said = document.getElementById("nap-said");
  var clocks = [].slice.call(document.querySelectorAll("[data-clock]"));
  var texts = clocks.map(function (one) { return one.textContent; });
  var form = document.getElementById("nap-form"), sure = document.getElementById("nap-sure");
  var mark = "nap-sent-" + page.dataset.mark, lost = document.getElementById("nap-lost");
  var title = document.title, timer = 0, done = false, told = first;
  var asks = window.fetch && page.dataset.ask, nextAsk = Number(page.dataset.askMs) || Infinity;
  var asking = false, answered = false, missed = 0, byHeader = false, worker = null, alarm = 0;
  // When the server last said that this ticket waits; the page itself did first. By the default NapPoll
  // pages of a large crowd ask every 12 to 18 seconds: for so long it counts as heard.
  var toldAt = 0, FRESH = 20000;
  var used = document.getElementById("nap-used"), ics = document.getElementById("nap-ics");

  // A computer that slept stops one of the clocks; set by hand, the other jumps. Too early is
  // harmless: the ticket stays as good as it was.
  function elapsed() {
    return Math.max(performance.now() - began, Date.now() - beganDate);
  }

  function left() { return due - elapsed(); }

  function two(n) { return (n < 10 ? "0" : "") + n; }

  function written(ms) {
    var s = Math.max(0, Math.ceil(ms / 1000)), h = Math.floor(s / 3600);
    var m = Math.floor(s / 60) % 60;
    return (h ? h + ":" + two(m) : String(m)) + ":" + two(s % 60);
  }

  // For who listens: each minute, and at 30 and 10 seconds.
  function tell(ms, now) {
    var s = Math.ceil(ms / 1000);
    if (said && now !== told && (s % 60 === 0 || s === 30 || s === 10)) {
      told = now;
      said.textContent = said.dataset.words.replace("{}", now);
    }
  }

  function cookiesWork() {
    try {
      document.cookie = "nap-test=1; Path=/; SameSite=Lax; Max-Age=10";
      var works = /(?:^|; )nap-test=1/.test(document.cookie);
      document.cookie = "nap-test=; Path=/; SameSite=Lax; Max-Age=0";
      return works;
    } catch (blocked) {
      return false;
    }
  }

  // Always the whole address: its path may begin with two slashes.
  function address() {
    var url = new URL(location.href);
    url.hash = "";
    if (page.dataset.ticket && (byHeader || !cookiesWork())) {
      var rest = url.search.slice(1).split("&").filter(function (part) {
        return part && part.indexOf("nap-ticket=") !== 0;
      });
      url.search = "?" + rest.concat("nap-ticket=" + page.dataset.ticket).join("&");
    }
    return url.href;
  }

  function remembered() {
    try { return sessionStorage.getItem(mark) !== null; } catch (blocked) { return false; }
  }

  function isOld() {
    var entry = performance.getEntriesByType("navigation")[0];
    return Boolean(entry && entry.type === "back_forward");
  }

  // Sent from this very page before: whether it arrived nobody can tell from here.
  function doubt() {
    page.dataset.stopped = "1";
    sure.hidden = false;
    stop.hidden = auto.hidden = true;
  }

  // A field may be named submit, action or setAttribute and hide the form's own.
  function prepare() {
    done = true;
    clearTimeout(timer);
    try { sessionStorage.setItem(mark, "1"); } catch (blocked) { /* done stands in for it */ }
    Element.prototype.setAttribute.call(form, "action", address());
  }

  function send() {
    prepare();
    HTMLFormElement.prototype.submit.call(form);
  }

  function comeBack() {
    if (done || page.dataset.stopped || lost) return;
    go();
  }

  function go() {
    if (done) return;
    if (form) return send();
    done = true;
    clearTimeout(timer);
    location.replace(address());
  }

  function look() {
    clearTimeout(timer);
    if (done) return;
    var ms = left();
    if (ms <= 0) ring();
    var now = written(ms);
    clocks.forEach(function (one, i) { one.textContent = texts[i].replace(first, now); });
    document.title = title.replace(first, now);
    tell(ms, now);
    if (ms > 0) timer = setTimeout(look, Math.min(ms, ms % 1000 + 5));
  }

  // -- Asking where he stands --

  // A worker's timers go on while the tab is hidden.
  function setAlarm(ms) {
    if (worker) return worker.postMessage(Math.max(ms, 0));
    clearTimeout(alarm);
    alarm = setTimeout(ring, Math.min(Math.max(ms, 0), 60000));
  }

  function setNext() {
    if (done || page.dataset.stopped) return;
    var next = left() > 0 ? Math.min(left(), nextAsk - elapsed()) : nextAsk - elapsed();
    if (next < Infinity) setAlarm(next + 5);
  }

  // Time to ask, or to come: who has not heard of the server lately asks first, so that a page without
  // a network stays one; and who has a form, for another tab may have used the ticket.
  function ring() {
    if (done || page.dataset.stopped) return;
    if (left() <= 0 && !asking && (!asks || (!form && elapsed() < toldAt + FRESH))) return comeBack();
    if (asks && !asking && (elapsed() >= nextAsk || (left() <= 0 && nextAsk === Infinity))) ask();
    else setNext();
  }

  function ask() {
    var abort = window.AbortController && new AbortController();
    var patience = setTimeout(function () { if (abort) abort.abort(); }, 8000);
    var wish = { cache: "no-store", credentials: "same-origin", headers: {} };
    if (byHeader) wish.headers["Nap-Ticket"] = page.dataset.ticket;
    if (abort) wish.signal = abort.signal;
    asking = true;
    nextAsk = Infinity;
    fetch(asks, wish).then(function (answer) {
      return answer.ok ? answer.json() : {};
    }).then(function (status) { return status; }, function () { return null; })
      .then(function (status) {
        clearTimeout(patience);
        asking = false;
        heard(status);
        look();
        setNext();
      });
  }

  function heard(status) {
    if (done || page.dataset.stopped) return;
    toldAt = -FRESH;
    if (!status) {
      // No network. One that never answered may be a filter in the browser: not to be waited for.
      missed += 1;
      if (!answered && missed >= 3) asks = null;
      nextAsk = elapsed() + Math.min(10000, 1000 * Math.pow(2, missed));
      return;
    }
    missed = 0;
    switch (status.state) {
      case "wait":
        due = elapsed() + 1000 * status.from;
        nextAsk = elapsed() + 1000 * status.ask;
        if (nextAsk >= due) nextAsk = Infinity;
        toldAt = elapsed();
        break;
      case "in":
        nextAsk = elapsed() + 1000 * status.ask;
        break;
      case "now":
      case "late":
      case "over":
        return comeBack();
      case "none":
        if (!answered && !byHeader && page.dataset.ticket) {
          // The cookie was not kept.
          byHeader = true;
          nextAsk = elapsed();
          return;
        }
        return usedUp();
      case "used":
        return usedUp();
      default:
        asks = null;
        nextAsk = Infinity;
    }
    answered = true;
  }

  // By another tab: to come back would be to stand in line once more.
  function usedUp() {
    page.dataset.stopped = "1";
    if (stop) stop.hidden = true;
    if (auto) auto.hidden = true;
    if (used) used.hidden = false;
  }

  function startAsking() {
    if (!asks) return;
    try {
      worker = new Worker(page.dataset.worker);
      worker.onmessage = ring;
      worker.onerror = function () { worker = null; setNext(); };
    } catch (blocked) {
      worker = null;
    }
    var sooner = document.getElementById("nap-asks");
    if (sooner) sooner.hidden = false;
    setNext();
  }

  // Refresh is for who has no script, or one that is blocked. Pictures are there when the page has loaded.
  function callRefreshOff() {
    var refresh = document.querySelector("meta[http-equiv=refresh]");
    setTimeout(function () {
      window.stop();
      if (refresh) refresh.parentNode.removeChild(refresh);
    }, 0);
  }

  function stamp(ms) { return new Date(ms).toISOString().replace(/[-:]|[.][0-9]+/g, ""); }

  // For the calendar of who has long to wait.
  function entry() {
    var lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//mod_nap//ticket//EN", "BEGIN:VEVENT",
      "UID:" + page.dataset.mark, "DTSTAMP:" + stamp(Date.now()),
      "DTSTART:" + stamp(Date.now() + left()), "DURATION:PT5M",
      "SUMMARY:" + ics.dataset.summary + " " + location.host, "URL:" + address(),
      "BEGIN:VALARM", "ACTION:DISPLAY", "DESCRIPTION:" + ics.dataset.summary, "TRIGGER:-PT1M",
      "END:VALARM", "END:VEVENT", "END:VCALENDAR", ""];
    return URL.createObjectURL(new Blob([lines.join("\r\n")], { type: "text/calendar" }));
  }

  if (ics && left() >= 600000) {
    ics.hidden = false;
    ics.addEventListener("click", function () { ics.href = entry(); });
  }
  if (stop) {
    stop.hidden = false;
    stop.addEventListener("click", function () {
      page.dataset.stopped = "1";
      stop.hidden = true;
      auto.hidden = true;
      stopped.hidden = false;
      stopped.focus();
    });
  }
  [].forEach.call(document.querySelectorAll("[data-go]"), function (link) {
    link.addEventListener("click", function (event) {
      event.preventDefault();
      go();
    });
  });
  if (form) {
    [].forEach.call(document.querySelectorAll("[data-script]"), function (one) {
      one.hidden = false;
    });
    // Pressed twice it is sent once.
    EventTarget.prototype.addEventListener.call(form, "submit", function (event) {
      if (done) event.preventDefault();
      else prepare();
    });
    if (remembered() || isOld()) doubt();
  }
  if (document.readyState === "complete") callRefreshOff();
  else window.addEventListener("load", callRefreshOff);
  document.addEventListener("visibilitychange", look);
  window.addEventListener("online", function () {
    if (asks && missed) nextAsk = elapsed();
    ring();
  });
  window.addEventListener("pageshow", function (event) {
    if (event.persisted && done) {
      done = false;
      if (form) doubt();
    }
    look();
  });
  window.addEventListener("focus", look);
  look();
  startAsking();
})();
