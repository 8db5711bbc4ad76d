# mod_nap. `make help` lists the targets; `make test` and `make demo` install what is missing.

CARGO  ?= cargo
CC     ?= cc
TARGET := $(or $(CARGO_TARGET_DIR),target)
SO     := $(TARGET)/release/mod_nap.so
CGI    := $(TARGET)/cgi/board $(TARGET)/cgi/counter $(TARGET)/cgi/work $(TARGET)/cgi/backend
PRELOAD := $(addprefix $(TARGET)/preload/,die_holding.so late_connection.so wall_clock.so)
# The suites for the sanitized module: those that assert no rate and no overlap.
SANITIZED := $(TARGET)/sanitize/mod_nap.so
THREADED := $(TARGET)/tsan/mod_nap.so
SANITIZED_TESTS := refusal tickets tickets_ends
PREFIX ?= /usr/local
LIBDIR  = $(shell apxs -q LIBEXECDIR)
# Where NapStore looks for nap-agent, unless it is told (agent=).
AGENTDIR := /usr/lib/mod_nap
STRICT := -std=gnu11 -Wall -Wextra -Werror
BENCHES := crowds changes compare scenarios parking mix instructions rates pollers debts balancer fleet ask
# The real servers mostly wait, so more of them than cores at a time.
THREADS := 4

.NOTPARALLEL:
.PHONY: all help setup setup-all setup-package module programs cgi install uninstall demo demo-balancer demo-paper \
        demo-shop test test-all bench papers check-papers check-format check-bindings directives test-pure test-room \
        test-models test-sanitize test-threads test-valgrind test-httpd test-docker clean

all: module programs cgi ## build mod_nap.so, nap-agent, nap-sim, nap-load (the default)

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

setup: ## install what building and testing needs, where something is missing
	@tests/setup.sh build test

setup-all: # and what the long tests and the benches need
	@tests/setup.sh build test bench package browser shop

setup-package: # what building the Debian package needs
	@tests/setup.sh build package

# One symbol leaves the module: with more, two Rust modules in one server would clash.
module: ## build target/release/mod_nap.so
	$(CARGO) build --release --locked --lib
	@if [ $(SO) -nt c_shim/mod_nap.map ] && [ $(SO) -nt $(TARGET)/release/libmod_nap.a ]; then \
	  touch $(SO); \
	else set -x; $(CC) -shared -Wl,-u,nap_module -Wl,--version-script=c_shim/mod_nap.map \
	    -Wl,--gc-sections -Wl,-z,relro,-z,now -o $(SO) $(TARGET)/release/libmod_nap.a \
	    -lgcc_s -lpthread -ldl -lm -lc; fi
	@seen=$$(nm -D --defined-only $(SO) | awk '{print $$3}' | tr '\n' ' '); \
	  [ "$$seen" = 'nap_module ' ] || { echo "$(SO) must export nap_module alone, not: $$seen"; exit 1; }

programs: # nap-sim, nap-load and nap-agent
	$(CARGO) build --release --locked -p nap-sim -p nap-load -p nap-agent

cgi: $(CGI) $(PRELOAD) # the CGI programs of the demo and of the tests

$(TARGET)/cgi/board: demo/board.c
$(TARGET)/cgi/counter: tests/cgi/counter.c
$(TARGET)/cgi/work: demo/work.c
$(TARGET)/cgi/backend: demo/backend.c
$(CGI):
	@mkdir -p $(@D)
	$(CC) -O2 $(STRICT) -o $@ $< -lpthread

$(PRELOAD): $(TARGET)/preload/%.so: tests/preload/%.c
	@mkdir -p $(@D)
	$(CC) -O2 $(STRICT) -shared -fPIC -o $@ $< -ldl

# `sudo make install` after `make` only copies: root may have no cargo.
# What a debugger needs is nine tenths of the file: it goes where debuggers look for it.
install: $(if $(wildcard $(SO)),,module) ## mod_nap.so into httpd's modules, its manual page, the programs (DESTDIR, PREFIX hold)
	objcopy --only-keep-debug $(SO) $(SO).debug
	objcopy --strip-unneeded --add-gnu-debuglink=$(SO).debug $(SO) $(SO).stripped
	install -D -m 644 $(SO).stripped $(DESTDIR)$(LIBDIR)/mod_nap.so
	install -D -m 644 $(SO).debug $(DESTDIR)$(LIBDIR)/.debug/mod_nap.so.debug
	install -D -m 644 docs/man/mod_nap.7 $(DESTDIR)$(PREFIX)/share/man/man7/mod_nap.7
	for program in nap-load nap-sim; do [ ! -e $(TARGET)/release/$$program ] || \
	  install -D -m 755 -s $(TARGET)/release/$$program $(DESTDIR)$(PREFIX)/bin/$$program || exit 1; done
	[ ! -e $(TARGET)/release/nap-agent ] || \
	  install -D -m 711 -s $(TARGET)/release/nap-agent $(DESTDIR)$(AGENTDIR)/nap-agent
	@echo 'Installed. Load it with:'
	@echo '  LoadModule nap_module $(LIBDIR)/mod_nap.so'

uninstall: ## remove what `make install` put there (the same DESTDIR and PREFIX)
	rm -f $(DESTDIR)$(LIBDIR)/mod_nap.so $(DESTDIR)$(LIBDIR)/.debug/mod_nap.so.debug \
	  $(DESTDIR)$(PREFIX)/share/man/man7/mod_nap.7 $(DESTDIR)$(PREFIX)/bin/nap-load $(DESTDIR)$(PREFIX)/bin/nap-sim \
	  $(DESTDIR)$(AGENTDIR)/nap-agent
	@rmdir $(DESTDIR)$(LIBDIR)/.debug $(DESTDIR)$(AGENTDIR) 2>/dev/null || :
	@echo "Removed. Take its LoadModule line and its directives out of httpd's configuration, too."

demo: setup module programs cgi ## a board with and without the module, side by side, until Ctrl-C
	@demo/demo.sh $(TARGET)

demo-shop: setup module programs ## a shop of seven pages with and without the module, until Ctrl-C
	@tests/setup.sh shop
	@demo/shop/demo.sh $(TARGET)

demo-balancer: setup module cgi ## four backends behind lbmethod=nap, to be broken by a word, until Ctrl-C
	@demo/balancer.sh $(TARGET)

.PHONY: demo-fleet
demo-fleet: setup module programs cgi ## three front ends of one board, a store and HAProxy, until Ctrl-C
	@tests/setup.sh fleet
	@demo/fleet.sh $(TARGET)

# The paper's own size is POSTS=50: half an hour.
POSTS ?= 10
demo-paper: setup-all module programs cgi ## the paper's experiment: its tables and figures, into target/demo-paper
	$(CARGO) bench --locked --bench paper -- posts=$(POSTS)

.PHONY: demo-sqs
demo-sqs: setup-all module programs cgi ## the SQS paper's experiment with the shop: its figures, into target/sessions
	$(CARGO) bench --locked --bench sessions -- $(SESSIONS)

# All in virtual time: some seconds. The figures are committed as SVG.
papers: programs ## docs/papers.md and docs/tuning.md: experiments with the code that runs in httpd
	$(TARGET)/release/nap-sim paper all --out docs
	$(TARGET)/release/nap-sim tune --out docs
	rm -f docs/img/papers/*.png

# The same seed gives the same report: a difference is a change that nobody has looked at.
check-papers: programs
	@$(TARGET)/release/nap-sim paper all --out $(TARGET)/papers >$(TARGET)/papers.log 2>&1 || \
	  { cat $(TARGET)/papers.log; exit 1; }
	@$(TARGET)/release/nap-sim tune --out $(TARGET)/papers
	@for made in papers.md tuning.md $$(cd docs && ls img/papers/*.svg); do \
	  cmp $(TARGET)/papers/$$made docs/$$made || \
	    { echo "docs/$$made is not what nap-sim prints: look at the difference, then make papers"; exit 1; }; done

test: setup check-format test-pure test-room check-papers module check-bindings test-httpd ## everything that must hold, under ten minutes warm

check-format:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

test-pure: ## the tests that need no server
	$(CARGO) test --locked --workspace --lib --bins

# A million events, optimised: `cargo test` has only time for some thousands. No constant was chosen by the fleets' seed.
FLEET_SEED = 5003
test-room: programs ## random worlds with faults in virtual time: every promise kept
	$(TARGET)/release/nap-sim check --events 1000000
	$(TARGET)/release/nap-sim check --events 1000000 --nodes 20 --seed $(FLEET_SEED)

# A minute and a half.
.PHONY: test-scale
test-scale: programs ## a crowd of a million at a hundred front ends, in virtual time: every promise kept, in order
	$(TARGET)/release/nap-sim scale --nodes 100 --visitors 1000000 --within 60 --judge
	$(TARGET)/release/nap-sim scale --nodes 100 --visitors 1000000 --within 60 --judge --round-robin

# The permits under loom: every interleaving, and every value the memory model lets a thread read.
test-models: ## models of the lock-free permits
	$(CARGO) test --locked -p nap-sim --lib --features models models::

# The shim in the real httpd under AddressSanitizer and UBSan: its objects come before those of the
# library, so the library's are not used. A child's sanitizer report fails the test that started it.
$(SANITIZED): module $(wildcard c_shim/*.[ch] tests/sanitize/*)
	@mkdir -p $(@D)
	$(CC) -shared -fPIC $(STRICT) -Wno-unused-parameter -fno-omit-frame-pointer \
	  -fsanitize=address,undefined -fno-sanitize-recover=undefined \
	  $(foreach flags,CFLAGS EXTRA_CPPFLAGS EXTRA_CFLAGS,$(shell apxs -q $(flags))) \
	  $(foreach dir,INCLUDEDIR APR_INCLUDEDIR APU_INCLUDEDIR,-isystem $(shell apxs -q $(dir))) -O1 -g \
	  -include tests/sanitize/pools.h -o $@ c_shim/*.c tests/sanitize/pools.c \
	  -Wl,-u,nap_module -Wl,--version-script=c_shim/mod_nap.map \
	  $(TARGET)/release/libmod_nap.a -lgcc_s -lpthread -ldl -lm -lc

test-sanitize: $(SANITIZED) programs cgi ## the C shim under AddressSanitizer and UBSan
	NAP_SO=$(abspath $(SANITIZED)) NAP_PRELOAD=$(shell $(CC) -print-file-name=libasan.so) \
	  $(CARGO) test --locked $(SANITIZED_TESTS:%=--test %) -- --test-threads=$(THREADS)

# The shim's threads: only its objects are instrumented, but locks and descriptors are seen in all of httpd.
# TSan wants addresses without randomisation. mod_cgid's daemon does not outlive all children under it.
$(THREADED): module $(wildcard c_shim/*.[ch] tests/sanitize/*)
	@mkdir -p $(@D)
	$(CC) -shared -fPIC $(STRICT) -Wno-unused-parameter -fno-omit-frame-pointer -fsanitize=thread \
	  $(foreach flags,CFLAGS EXTRA_CPPFLAGS EXTRA_CFLAGS,$(shell apxs -q $(flags))) \
	  $(foreach dir,INCLUDEDIR APR_INCLUDEDIR APU_INCLUDEDIR,-isystem $(shell apxs -q $(dir))) -O1 -g \
	  -include tests/sanitize/threads.h -o $@ c_shim/*.c -Wl,-u,nap_module -Wl,--version-script=c_shim/mod_nap.map \
	  $(TARGET)/release/libmod_nap.a -lgcc_s -lpthread -ldl -lm -lc

test-threads: $(THREADED) programs cgi ## the C shim under ThreadSanitizer
	NAP_SO=$(abspath $(THREADED)) NAP_PRELOAD=$(shell $(CC) -print-file-name=libtsan.so) \
	  setarch -R $(CARGO) test --locked --test parking -- --test-threads=$(THREADS) \
	  --skip the_places_of_a_child_that_is_killed --skip who_comes_as_a_child_ends

# The unsafe parts of the Rust code. Sanitizers and Miri want a nightly toolchain; helgrind and DRD
# report every plain load of an atomic as a race, so the models cover threads.
test-valgrind: ## the segment, the room and what comes from outside under valgrind's memcheck
	$(CARGO) test --locked -p mod_nap -p nap-core --lib \
	  --config 'target."cfg(unix)".runner = ["valgrind", "-q", "--error-exitcode=9"]' \
	  -- shm:: room:: page:: nap::ticket::tests

# Needs the module and the CGI programs; stops when the module is not built.
HTTPD_TESTS := --test '*'
test-httpd: module programs cgi ## the tests on a real httpd
	$(CARGO) test --locked --workspace --no-fail-fast $(HTTPD_TESTS) -- --test-threads=$(THREADS) $(ELSEWHERE)

# Crowds of four at once, or anything beside them, would make nodes slower than they promised.
.PHONY: test-fleet
test-fleet: export NAP_TEST := all
test-fleet: setup module programs cgi ## fleets under each MPM with large crowds, the long soak: half an hour on a quiet machine
	$(CARGO) test --locked --no-fail-fast --test fleet -- --test-threads=2

# Six minutes of waiting; in test-all they pass while everything else runs.
test-hidden: module programs cgi
	$(CARGO) test --locked --test browser_return -- hidden_for_six_minutes

# Minutes of one processor, in test-all beside the others.
SLOW := bit_patterns fuzz
.PHONY: test-slow
test-slow: module programs cgi
	$(CARGO) test --locked --no-fail-fast $(SLOW:%=--test %) -- --test-threads=1

# On a second httpd, where no access can be parked: it has its own module and target.
.PHONY: test-older
OLDER_TESTS := scheduled tickets restarts refusal
OLDER_PARKING := where_nobody what_is_answered who_cannot behind_an_error who_waits
test-older: ## the tests on an httpd older than 2.4.63: NAP_OLDER_APXS names its apxs
ifeq ($(NAP_OLDER_APXS),)
	@echo 'test-older: NAP_OLDER_APXS names no apxs, so nothing was tested on an httpd older than 2.4.63'
else
	@$(MAKE) --no-print-directory test-older-httpd APXS=$(NAP_OLDER_APXS) CARGO_TARGET_DIR=$(abspath $(TARGET)/older)

test-older-httpd: module programs cgi
	$(CARGO) test --locked --no-fail-fast $(OLDER_TESTS:%=--test %) -- --test-threads=$(THREADS)
	$(CARGO) test --locked --no-fail-fast --test parking -- --test-threads=$(THREADS) $(OLDER_PARKING)
endif

directives: ## write what is made of the table of directives
	$(CARGO) run --locked -q -p nap-directives

check-bindings: # src/ffi/contract.rs is what bindgen makes of c_shim/nap.h
	@cp src/ffi/contract.rs $(TARGET)/contract.committed
	$(CARGO) check --locked --lib --features bindings
	@if ! cmp -s src/ffi/contract.rs $(TARGET)/contract.committed; then \
	  echo 'src/ffi/contract.rs was not what bindgen makes of c_shim/nap.h; it is now: commit it'; \
	  exit 1; fi

# The long forms of tests. No comment behind it: make would keep the space before that.
test-all: export NAP_TEST := all
# All but the tests of fleets, and those of test-slow.
BUT_FLEETS = $(filter-out fleet $(SLOW),$(sort $(notdir $(basename $(wildcard tests/*.rs crates/*/tests/*.rs)) \
  $(patsubst %/main.rs,%,$(wildcard tests/*/main.rs crates/*/tests/*/main.rs)))))
# Lanes: tests in containers and clean roots of their own, slow ones, and tests here. While those run,
# nothing waits. Fleets come last, in their short form, with nothing beside them: test-fleet has the long one.
# A failure does not keep the others from being run.
test-all: setup-all module programs cgi ## and the long ones: browsers, models, sanitizers, Docker, packages
	@$(MAKE) --no-print-directory --keep-going test-roots >$(TARGET)/test-roots.log 2>&1 & roots=$$!; \
	$(MAKE) --no-print-directory --keep-going test-hidden test-slow >$(TARGET)/test-hidden.log 2>&1 & hidden=$$!; \
	trap 'kill $$roots $$hidden' INT TERM; \
	$(MAKE) --no-print-directory --keep-going ELSEWHERE='--skip hidden_for_six_minutes' \
	  HTTPD_TESTS='$(BUT_FLEETS:%=--test %)' \
	  test test-models test-scale test-sanitize test-threads test-valgrind; here=$$?; \
	wait $$hidden; waited=$$?; wait $$roots; there=$$?; trap - INT TERM; \
	cat $(TARGET)/test-hidden.log $(TARGET)/test-roots.log; \
	env -u NAP_TEST $(CARGO) test --locked --no-fail-fast --test fleet -- --test-threads=$(THREADS); fleets=$$?; \
	exit $$((here | waited | there | fleets))

test-docker: # the image and what ab says of its container; three of them behind HAProxy
	@tests/docker.sh
	@tests/docker-fleet.sh

# Each is run even if one before it failed.
bench: setup-all module programs cgi ## compare with bare httpd and HAProxy; crowds that misbehave; instructions per request; debts
	@failed=; for bench in $(BENCHES); do \
	    options=; [ $$bench != pollers ] || options='-- mpm=all'; \
	    $(CARGO) bench --locked --bench $$bench $$options || failed="$$failed $$bench"; \
	done; \
	[ -z "$$failed" ] || { echo "beyond what they should be:$$failed"; exit 1; }

.PHONY: validate
validate: setup-all module programs cgi ## the simulator beside a real httpd, twelve quiet minutes; within 10 %: docs/validation.md
	$(CARGO) bench --locked --bench validate

# Only root can make the control group of the page that thrashes; without root the other curves run.
.PHONY: curves
curves: setup-all module programs cgi ## NapRunReady auto beside fixed limits: at least 0.95 of the best; an hour and a half, quiet
	$(CARGO) bench --locked --bench curves -- $(CURVES)

clean: ## remove what was built
	$(CARGO) clean

# ---- Packages -------------------------------------------------------------------------------------

.PHONY: man deb test-roots test-package test-from-source docker-test

man: programs # manual pages of the programs, from what they say of themselves
	@mkdir -p $(TARGET)/man
	help2man -N --name='visitors for a site behind mod_nap' -o $(TARGET)/man/nap-load.1 $(TARGET)/release/nap-load
	help2man -N --name='mod_nap in virtual time' -o $(TARGET)/man/nap-sim.1 $(TARGET)/release/nap-sim

# debian/rules needs only module, programs and man: a build without `make deb` goes by Build-Depends.
deb: setup-package ## a Debian package, in target/deb/
	@mkdir -p $(TARGET)/deb && rm -f $(TARGET)/deb/*.deb
	DEB_DIR=$(abspath $(TARGET)/deb) fakeroot debian/rules binary
	@debian/rules clean >/dev/null && ls $(TARGET)/deb/*.deb

test-roots: test-docker test-package test-from-source

test-package: cgi # the Debian package: lintian, its life in a clean Debian root; the quick start to the letter
	@tests/package.sh
	@tests/quick-start.sh

test-from-source: cgi # README's way from source, to the letter in a clean Debian root
	@tests/from-source.sh

docker-test: test-docker ## the image: crowds from another container, a killed backend, a restart with tickets, a fleet
