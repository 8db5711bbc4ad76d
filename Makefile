# mod_nap. `make help` lists the targets.

.PHONY: help test

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

test: ## everything that must hold, under ten minutes warm
	cargo fmt --check
	cargo clippy --all-targets --locked -- -D warnings
	cargo test --locked
