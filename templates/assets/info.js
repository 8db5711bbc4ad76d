// /nap-info: asks for the page again and again, and changes in it only what is different, so that
// nothing flickers and focus, selection and scrolled places stay where they are.
(function () {
  "use strict";
  var button = document.getElementById("pause");
  var calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  var paused = false, timer = 0, asked = null;

  // What belongs to this script and not to the server's page.
  function isOurs(node) { return node === button || node.id === "lost"; }

  function attributes(old, fresh) {
    [].slice.call(old.attributes).forEach(function (one) {
      if (!fresh.hasAttribute(one.name)) old.removeAttribute(one.name);
    });
    [].forEach.call(fresh.attributes, function (one) {
      if (old.getAttribute(one.name) !== one.value) old.setAttribute(one.name, one.value);
    });
  }

  function children(old, fresh) {
    var next = [].slice.call(fresh.childNodes), here = [].slice.call(old.childNodes);
    next.forEach(function (node, i) {
      if (i < here.length) change(here[i], node);
      else old.appendChild(document.importNode(node, true));
    });
    here.slice(next.length).forEach(function (node) { old.removeChild(node); });
  }

  function change(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
      old.parentNode.replaceChild(document.importNode(fresh, true), old);
    } else if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    } else if (!isOurs(old) && !old.isEqualNode(fresh)) {
      attributes(old, fresh);
      children(old, fresh);
    }
  }

  function say(words) {
    var lost = document.getElementById("lost");
    if (lost.textContent !== words) lost.textContent = words;
  }

  function take(text) {
    var page = new DOMParser().parseFromString(text, "text/html");
    if (!page.getElementById("pause")) throw new Error("another page");
    document.title = page.title;
    children(document.body, page.body);
    say("");
  }

  // Every two seconds; who wants less motion sees less of it.
  function later() {
    clearTimeout(timer);
    if (!paused && !document.hidden) timer = setTimeout(ask, calm.matches ? 10000 : 2000);
  }

  function ask() {
    clearTimeout(timer);
    if (asked) return;
    var control = asked = new AbortController();
    var patience = setTimeout(function () { control.abort(); }, 15000);
    fetch(location.href, { cache: "no-store", credentials: "same-origin", signal: control.signal })
      .then(function (answer) {
        if (!answer.ok) throw new Error(String(answer.status));
        return answer.text();
      })
      .then(function (text) { if (!paused) take(text); })
      .catch(function () {
        var taken = document.getElementById("taken");
        say("The server does not answer; this is how it was at " + taken.textContent + ".");
      })
      .then(function () {
        clearTimeout(patience);
        asked = null;
        later();
      });
  }

  button.hidden = false;
  button.addEventListener("click", function () {
    paused = !paused;
    button.textContent = paused ? button.dataset.go : button.dataset.pause;
    if (paused) clearTimeout(timer);
    else ask();
  });
  document.addEventListener("visibilitychange", function () {
    if (document.hidden) clearTimeout(timer);
    else if (!paused) ask();
  });
  later();
})();
