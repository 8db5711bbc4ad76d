// The ticket page: counts down, and once, when the time has come, comes back or sends its form again.
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

  // A computer that slept stops one of the clocks; set by hand, the other jumps. Too early is
  // harmless: the ticket stays as good as it was.
  function left() {
    return due - Math.max(performance.now() - began, Date.now() - beganDate);
  }

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
    if (page.dataset.ticket && !cookiesWork()) {
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
  function ask() {
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
    if (ms <= 0 && !page.dataset.stopped && !lost) return comeBack();
    var now = written(ms);
    clocks.forEach(function (one, i) { one.textContent = texts[i].replace(first, now); });
    document.title = title.replace(first, now);
    tell(ms, now);
    if (ms > 0) timer = setTimeout(look, Math.min(ms, ms % 1000 + 5));
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
      comeBack();
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
    if (remembered() || isOld()) ask();
  }
  document.addEventListener("visibilitychange", look);
  window.addEventListener("pageshow", function (event) {
    if (event.persisted && done) {
      done = false;
      if (form) ask();
    }
    look();
  });
  window.addEventListener("focus", look);
  look();
})();
