// A clock for the ticket page: a browser lets the timers of a hidden tab stand, but not a worker's.
"use strict";
var timer = 0;
self.onmessage = function (event) {
  clearTimeout(timer);
  timer = setTimeout(function () { self.postMessage("due"); }, event.data);
};
