//! NAP-Web (`papers/nap-web.txt`): bounded waiting in arrival order, and kept tickets.
