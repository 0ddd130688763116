# `make run` and `make test` are the two commands; the others are parts of them or measure something.

CARGO ?= cargo
# What `unladen serve` is given by `make run`: make run ARGS='--config.file=prometheus.yml'
ARGS ?=

.PHONY: run test page format lint unit browser fuzz compare-prometheus compare-readers bench-broker \
	bench-sdk bench-record bench-encode bench-head bench-stacks bench-overhead bench-torture bench-restart bench-churn \
	bench-smoke clean

# Sets everything up and starts the server on port 9090, watching itself and this machine.
run: page
	$(CARGO) build --release --locked --bin unladen
	./target/release/unladen serve $(ARGS)

# Every check: formatting, lints, all tests, the page in a real browser.
test: setup-test format lint unit browser

.PHONY: setup-run setup-test
setup-run:
	@./setup run
setup-test:
	@./setup test

# The web page, which is built into the binary. Builds only when its sources are newer.
page: ui/dist/index.html
ui/dist/index.html: ui/node_modules/.installed $(shell find ui/src ui/index.html ui/vite.config.ts ui/public -type f 2>/dev/null)
	cd ui && npm run --silent build
ui/node_modules/.installed: ui/package.json ui/package-lock.json | setup-run
	cd ui && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

format:
	$(CARGO) fmt --all --check

lint: page
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	cd ui && npm run --silent check

unit: page
	$(CARGO) test --workspace --locked
	cd ui && npm run --silent test

# Chromium drives the page of a server that watches itself and this machine.
browser: page
	$(CARGO) build --locked --bin unladen
	cd ui && npm run --silent test:browser

# Every fuzz target for a minute each: make fuzz SECONDS=60
SECONDS ?= 60
fuzz:
	./fuzz/run all $(SECONDS)

# unladen and Prometheus 3 side by side on the same targets and rules; builds Prometheus from its module.
compare-prometheus: page
	$(CARGO) build --release --locked --bin unladen
	./bench/peers/build prometheus
	cd bench && $(CARGO) run --release --locked --bin compare-prometheus

# What the library writes, in every format, read by its own readers and by Go's: thousands of random bodies.
# Others, or more of them: make compare-readers ARGS='--seed 2 --cases 100000'
compare-readers:
	-./bench/peers/build go
	cd bench && $(CARGO) run --release --locked --no-default-features --features readers \
		--bin compare-readers -- $(ARGS)

# The library beside its peers, each one command: bench/README.md says what is measured and how to read it.
# A peer that can't be built is named and left out. Tiny, without the peers that are not Rust:
# make bench-broker ARGS=--smoke
bench-broker bench-sdk bench-record bench-encode bench-head: bench-%:
	$(if $(ARGS),,-./bench/peers/build $(peers-$*))
	cd bench && $(CARGO) run --release --locked --no-default-features --features $* --bin bench-$* -- $(ARGS)
peers-broker = go python
peers-sdk = go java
peers-record = go java python
peers-encode = go
peers-head = head

# The profiler at work. A program is profiled with frame pointers and without, and beside a peer whose two
# unwinders exclude each other: builds of their own, in directories of their own. Peers that can't be built
# are named and left out, ARGS as above.
bench-build = cd bench && $(CARGO) build --release --locked --no-default-features
with-pointers = RUSTFLAGS="$(RUSTFLAGS) -C force-frame-pointers=yes"
bench-stacks:
	$(bench-build) --features stacks --bin bench-stacks
	-$(with-pointers) $(SHELL) -c '$(bench-build) --features stacks --bin bench-stacks --target-dir target/frame-pointers'
	cd bench && target/release/bench-stacks $(ARGS)

bench-overhead:
	$(CARGO) build --release --locked -p example-axum
	$(bench-build) --features overhead --bin bench-overhead
	-$(bench-build) --features overhead-pprof-rs --bin bench-overhead --target-dir target/pprof-rs
	-$(with-pointers) $(SHELL) -c '$(bench-build) --features overhead-pprof-rs-frame-pointer --bin bench-overhead --target-dir target/pprof-rs-frame-pointer'
	cd bench && target/release/bench-overhead $(ARGS)

.PHONY: bench-fleet bench-ingest bench-plan
# What a sample costs from the bytes of a body to journal and head, without sockets: a minute.
bench-ingest:
	$(CARGO) bench --locked -p server --bench ingest

# A fleet of 500 targets with 1,000 series each for unladen and for Prometheus 3, every 10 s and every 2 s, one
# after the other and side by side, five minutes each: half an hour in all. Shorter, or with others beside it:
# make bench-fleet ARGS='--duration=1m --intervals=2s --peer=/usr/bin/victoria-metrics'
bench-fleet: page
	$(CARGO) build --release --locked --bin unladen
	$(if $(findstring --smoke,$(ARGS)),,-./bench/peers/build prometheus)
	$(bench-build) --features fleet --bin bench-fleet
	cd bench && target/release/bench-fleet $(ARGS)

# What `unladen plan` says of four loads, and what they take; 25 minutes, 12 of them for the largest. The coefficients of another
# machine: unladen loadtest --calibrate=FILE, then make bench-plan ARGS=--coefficients=FILE
bench-plan: page
	$(CARGO) build --release --locked --bin unladen
	$(bench-build) --features fleet --bin bench-fleet
	cd bench && target/release/bench-fleet --plan $(ARGS)

# Five minutes of everything at once that a profiler must survive; a minute of it is among the tests.
bench-torture:
	$(bench-build) --features torture --bin bench-torture
	cd bench && target/release/bench-torture $(ARGS)

# Coming back after kill -9: the server on 50 million samples that a killed process left, beside Prometheus.
# The store alone, without the server around it: make bench-restart ARGS='--only store'
bench-restart: page
	$(CARGO) build --release --locked --bin unladen
	$(if $(ARGS),,-./bench/peers/build prometheus)
	cd bench && $(CARGO) run --release --locked --no-default-features --features restart --bin bench-restart -- $(ARGS)

# Twelve simulated hours in which a tenth of the series is replaced every ten minutes.
bench-churn:
	$(bench-build) --features churn --bin bench-churn
	cd bench && target/release/bench-churn $(ARGS)

# All of them in their tiny size, so that they do not rot.
bench-smoke:
	cd bench && $(CARGO) test --locked --no-default-features --features broker,encode,head,readers,record,restart,sdk

clean:
	$(CARGO) clean
	rm -rf ui/dist ui/node_modules bench/target bench/bin bench/out fuzz/target
